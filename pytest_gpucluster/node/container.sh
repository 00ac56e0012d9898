#!/bin/sh
# Become the first process of a container. Runs as process 1 of a new pid and mount namespace.
#   container.sh FSTAB ROOT WORKDIR PROGRAM PATH NAME=VALUE... PROGRAM ARGUMENT...
# Standard input is the writing end of a pipe that tells how far it came, by lines:
#   "pid N" (as the agent sees it), then
#   "started" just before it becomes the program, or
#   "error NUMBER TEXT..." when it cannot (the rest of the stream is the text).
set -u
exec 3>&0 </dev/null
fstab=$1 root=$2 workdir=$3 program=$4 search=$5
shift 5

read -r pid _ </proc/self/stat
echo "pid $pid" >&3

give_up() {
  echo "error $1 $2" >&3
  exec 3>&-
  exit "$1"
}

said=$(mount --all --fstab "$fstab" 2>&1) || give_up 125 "cannot mount the container's file system: $said"
cd "$root" || give_up 125 "no root folder"
said=$(pivot_root . . 2>&1) || give_up 125 "cannot enter the container's root: $said"
said=$(umount --lazy . 2>&1) || give_up 125 "cannot leave the node's root: $said"
cd / || give_up 125 "no root folder"
said=$(mkdir -p -- "$workdir" 2>&1) || give_up 128 "cannot make the working folder: $said"
cd -- "$workdir" || give_up 128 "chdir to cwd (\"$workdir\") set in config.json failed: not a directory"

# A missing program is told apart from a program that ends with code 127.
case $program in
*/*)
  [ -e "$program" ] || give_up 128 "exec: \"$program\": stat $program: no such file or directory"
  [ -f "$program" ] && [ -x "$program" ] || give_up 128 "exec: \"$program\": permission denied"
  ;;
*)
  found=
  IFS=:
  for folder in $search; do
    if [ -f "$folder/$program" ] && [ -x "$folder/$program" ]; then
      found=1
      break
    fi
  done
  unset IFS
  [ -n "$found" ] || give_up 128 "exec: \"$program\": executable file not found in \$PATH"
  ;;
esac
echo started >&3
exec 3>&-
exec /usr/bin/env -i "$@"
