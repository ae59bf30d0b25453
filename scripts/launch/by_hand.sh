#!/usr/bin/env bash
# Several processes of one training on this machine, started again after a preemption or a lost process.
#
#   scripts/launch/by_hand.sh 2 vitzoo train --config quickstart --workdir runs/two
#
# For several machines run the command on each by hand, with the flags that this script adds (see docs/scaling.md):
#   vitzoo train ... --coordinator FIRST_MACHINE:12345 --num-processes 2 --process-id 0      # 1 on the second
#
# RESTARTS (3) bounds how often it starts again. On a machine without an accelerator, DEVICES gives each process so many
# simulated devices.
# Exit code: that of the training: 0 done, 1 failed, 2 refused, 75 preempted (this script got SIGTERM), 130 Ctrl-C.
set -u
count=$1
shift
[ -n "${DEVICES:-}" ] && export XLA_FLAGS="${XLA_FLAGS:-} --xla_force_host_platform_device_count=$DEVICES"

asked="" # the exit code, once somebody asks this script to end
pids=()
# SIGTERM goes to this script alone, so it hands it on; Ctrl-C reaches every process of a terminal by itself
trap 'asked=75; kill -TERM "${pids[@]}" 2>/dev/null' TERM
trap 'asked=130' INT

for ((start = 0; start <= ${RESTARTS:-3}; start++)); do
  # a port that nobody listens on just now
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  pids=()
  for ((id = 0; id < count; id++)); do
    "$@" --coordinator "127.0.0.1:$port" --num-processes "$count" --process-id "$id" &
    pids+=($!)
  done

  codes=()
  for pid in "${pids[@]}"; do
    wait "$pid"
    code=$?
    while kill -0 "$pid" 2>/dev/null; do # a signal to this script ended the waiting, not the process
      wait "$pid"
      code=$?
    done
    codes+=("$code")
  done

  # a process that a signal killed tells more than the others, which then end with 1
  code=${codes[0]}
  dead=""
  for id in "${!codes[@]}"; do
    if [ "${codes[$id]}" -gt 130 ]; then dead="$id"; fi
    if [ "${codes[$id]}" = 2 ] || [ "${codes[$id]}" = 130 ]; then code=${codes[$id]}; fi
  done
  if [ "$code" = 2 ] || [ "$code" = 130 ]; then exit "$code"; fi
  if [ -n "$dead" ]; then
    why="process $dead died (exit codes ${codes[*]})"
  elif [ "$code" = 75 ]; then
    why="preempted"
  else
    exit "$code" # done, or a failure that would come again
  fi
  if [ -n "$asked" ]; then exit "$asked"; fi
  if [ "$start" -lt "${RESTARTS:-3}" ]; then
    echo "by_hand.sh: $why; starts again from the last checkpoint ($((start + 1)) of ${RESTARTS:-3})" >&2
  fi
done
echo "by_hand.sh: $why; no start is left, so it ends" >&2
[ -n "$dead" ] && exit 1
exit 75
