#!/usr/bin/env bash
# One training on several machines of a Slurm cluster, one process for each of them.
#
#   sbatch scripts/launch/slurm.sh --config vit/imagenet:S/16 --workdir /shared/runs/s16
#
# What the lines below say is changed by flags before the script: on machines without GPUs
#
#   sbatch --gpus-per-node=0 --cpus-per-task=16 scripts/launch/slurm.sh --config ...
#
# The folder of the run must lie on a disk that all machines share. `vitzoo train` finds the other processes by itself: it
# sees that srun started several tasks.
#SBATCH --job-name=vitzoo
#SBATCH --nodes=2
# one process a machine, which takes all of the machine's GPUs; with --ntasks-per-node=8 --cpus-per-task=4 each takes
# one of them, without --gpus-per-task: JAX chooses among all GPUs of the machine, Slurm would show each process one alone
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=12:00:00
# may be stopped for other jobs, and is then put into the queue again
#SBATCH --requeue
# SIGTERM to every process two to three minutes before the time is over: they save and exit 75
#SBATCH --signal=TERM@120
# one file for all starts of this job
#SBATCH --output=vitzoo-%j.log
#SBATCH --open-mode=append
set -u

# the environment that holds vitzoo, the same path on all machines
[ -n "${VENV:-}" ] && source "$VENV/bin/activate"

# SIGTERM is for the processes, which srun hands it to; this script waits for how they end
trap '' TERM
# one process with all GPUs of its machine: JAX would give it the first alone
local_devices=$(seq -s, 0 $((${SLURM_GPUS_ON_NODE:-1} - 1)))
[ "${SLURM_NTASKS_PER_NODE:-1}" = 1 ] && [ -n "${SLURM_GPUS_ON_NODE:-}" ] && export JAX_LOCAL_DEVICE_IDS=$local_devices
# srun of Slurm 22.05 and later doesn't take the number of CPUs from the lines above by itself
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
# a task that ends is left alone, since the others save or end by themselves; a killed one gives 137
srun --kill-on-bad-exit=0 --wait=60 vitzoo train "$@"
code=$? # the highest of all tasks

restarts=${SLURM_RESTART_COUNT:-0}
case $code in
  # done, failed, refused, no vitzoo there, Ctrl-C: starting again would change nothing
  0 | 1 | 2 | 126 | 127 | 130) exit "$code" ;;
  75) why="preempted, and saved" ;;
  *) why="a process died (exit code $code)" ;;
esac
# a cancelled job must stay ended, and one that Slurm itself puts back (preempted, a machine down) needs it only once
state=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format='%T %r')
case $state in
  "" | RUNNING* | *TimeLimit) ;;
  *)
    echo "slurm.sh: $why; Slurm has cancelled the job or put it back, so it is left alone" >&2
    exit "$code"
    ;;
esac
if [ "$restarts" -ge "${RESTARTS:-10}" ]; then
  echo "slurm.sh: $why; no start is left after $restarts, so it ends" >&2
  exit "$code"
fi
if ! scontrol requeue "$SLURM_JOB_ID"; then
  echo "slurm.sh: $why; Slurm doesn't start this job again, but the same sbatch command goes on" >&2
  exit "$code"
fi
echo "slurm.sh: $why; goes into the queue again ($((restarts + 1)) of ${RESTARTS:-10})" >&2
