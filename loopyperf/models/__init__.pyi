from .literature import gpumech as gpumech
from .literature import gpuperf as gpuperf
from .literature import mwp_cwp as mwp_cwp
from .literature import transit as transit
from .literature import volkov as volkov
from .literature import wfg as wfg
