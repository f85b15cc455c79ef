from . import gpumech as gpumech
from . import gpuperf as gpuperf
from . import mwp_cwp as mwp_cwp
from . import transit as transit
from . import volkov as volkov
from . import wfg as wfg
