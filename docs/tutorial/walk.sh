#!/bin/sh
# The walk of docs/tutorial/index.md: its commands, one after the other, each printed before what it prints.
#
#     sh docs/tutorial/walk.sh FOLDER
#
# FOLDER is made; what the walk makes (fits, an archive, a report) goes there, and nothing of one's own is touched.
set -eu

tutorial=$(cd "$(dirname "$0")" && pwd)
folder=${1:?give a folder for what the walk makes}
mkdir -p "$folder"
cp -R "$tutorial"/*.py "$tutorial"/kernels "$tutorial"/recorded.jsonl "$folder"
cd "$folder"
LOOPYPERF_DATA=$PWD/data
LOOPYPERF_CACHE=0
POCL_MAX_PTHREAD_COUNT=1
export LOOPYPERF_DATA LOOPYPERF_CACHE POCL_MAX_PTHREAD_COUNT

walk() {
    printf '$ %s\n' "$*"
    "$@"
}

walk loopyperf fit recorded.jsonl --kernels kernels --output recorded.json
walk loopyperf estimate matmul.py:tiled --set n=4096 --device nvidia-v100 --model pipeline
walk loopyperf report matmul.py:tiled --set n=4096 --device nvidia-v100 --model pipeline -o report.html
walk loopyperf calibrate --kernels kernels --archive mine.jsonl --output mine.json
walk loopyperf estimate matmul.py:tiled --set n=512 --fit mine.json
walk loopyperf rank tiles.py:variants --set n=512 --fit mine.json
walk python measure.py
