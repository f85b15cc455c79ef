#!/bin/sh
# Measure a GPU in under ten minutes and save the raw samples, compressed, in one folder.
# Run it from the root of the repository; loopyperf and CuPy must be importable:
#   sh benchmarks/gpu_hour.sh FOLDER [seconds] [backend] [options of gpu_hour.py]
set -eu
folder=${1:?missing FOLDER for the archives}
seconds=${2:-540}
backend=${3:-cuda}
python=${PYTHON:-python3}
shift $(($# < 3 ? $# : 3))
mkdir -p "$folder"
"$python" -c 'from loopyperf.cli import main; main()' doctor > "$folder/doctor.txt" 2>&1 || true
nvidia-smi > "$folder/nvidia-smi.txt" 2>&1 || true
exec "$python" benchmarks/gpu_hour.py "$folder" --backend "$backend" --seconds "$seconds" "$@"
