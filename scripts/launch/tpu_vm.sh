#!/usr/bin/env bash
# One training on all machines of a Cloud TPU slice. Run it where gcloud is set up:
#
#   scripts/launch/tpu_vm.sh my-slice us-central2-b vitzoo train --config vit/imagenet:B/16 --workdir /shared/runs/b16
#
# The command is run on every machine of the slice, with --distributed: each asks the TPU's metadata for the others.
# vitzoo must be installed on each (pip install 'vitzoo[tpu]'), and the folder of the run must be one that all see:
# a disk, not a bucket's address (a bucket that gcsfuse mounts is a folder).
# RESTARTS (10) bounds how often it starts again after a preemption or a lost machine.
set -u
slice=$1
zone=$2
shift 2

for ((start = 0; start <= ${RESTARTS:-10}; start++)); do
  # --worker=all starts the same command on every machine; gcloud gives back the code of one that failed
  gcloud compute tpus tpu-vm ssh "$slice" --zone="$zone" --worker=all --command="$(printf '%q ' "$@") --distributed"
  code=$?
  case $code in
    0 | 2 | 130) exit "$code" ;; # done, refused, Ctrl-C
    75) why="preempted, and saved" ;;
    *) why="a process failed or its machine is lost (exit code $code)" ;;
  esac
  if [ "$start" -lt "${RESTARTS:-10}" ]; then
    echo "tpu_vm.sh: $why; starts again from the last checkpoint ($((start + 1)) of ${RESTARTS:-10})" >&2
    # a slice that was taken away comes back when its queued resource is granted again
    until [ "$(gcloud compute tpus tpu-vm describe "$slice" --zone="$zone" --format='value(state)')" = READY ]; do
      sleep 60
    done
  fi
done
echo "tpu_vm.sh: $why; no start is left, so it ends" >&2
exit "$code"
