# Runs a program of MPI in the pods of a process group. The arguments are its command.
# The first pod waits for the others and runs the command. The others run sshd until it has ended.
set -eu
umask 077

fail() {
  echo "di-mpi: $*" >&2
  exit 1
}

sshd=$(PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v sshd) || fail "the image has no sshd"
command -v ssh-keygen > /dev/null || fail "the image has no ssh-keygen"
[ -n "${DI_MPI_KEY:-}" ] || fail "DI_MPI_KEY is missing: the operator has no key for the secrets of jobs"
[ $# -gt 0 ] || fail "the container has no command"

# The same path in all pods, because a process of one pod may start one in another.
files="${TMPDIR:-/tmp}/di-mpi"
rm -rf "$files"
mkdir -p "$files/sessions"
printf '%s\n' "$DI_MPI_KEY" > "$files/key"
unset DI_MPI_KEY
ssh-keygen -y -f "$files/key" > "$files/authorized_keys" || fail "DI_MPI_KEY is no key"
echo "* $(cat "$files/authorized_keys")" > "$files/known_hosts"
if [ "$(id -u)" = 0 ]; then
  mkdir -p /run/sshd
  # OpenMPI asks for this. In a container there is often no other user.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# Processes that MPI starts have the variables of their pod.
export -p > "$files/environment"
cat > "$files/enter" << END
. $files/environment
cd "$PWD"
if [ "\$SSH_ORIGINAL_COMMAND" = di-mpi-end ]; then
  touch $files/ended
  exit
fi
exec 3<&0
sh -c "\$SSH_ORIGINAL_COMMAND" <&3 &
touch $files/sessions/\$!
[ ! -e $files/stopping ] || kill -TERM \$!
code=0
wait \$! || code=\$?
rm -f $files/sessions/\$!
exit \$code
END
cat > "$files/sshd_config" << END
Port $DI_MPI_PORT
HostKey $files/key
AuthorizedKeysFile $files/authorized_keys
PidFile none
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowTcpForwarding no
X11Forwarding no
PrintMotd no
MaxStartups 1000
LogLevel ERROR
ForceCommand exec sh $files/enter
END
cat > "$files/ssh_config" << END
Port $DI_MPI_PORT
IdentityFile $files/key
IdentitiesOnly yes
UserKnownHostsFile $files/known_hosts
StrictHostKeyChecking yes
BatchMode yes
ConnectTimeout 5
LogLevel ERROR
END
printf '#!/bin/sh\nexec ssh -F %s "$@"\n' "$files/ssh_config" > "$files/ssh"
chmod 700 "$files/ssh"

"$sshd" -D -e -f "$files/sshd_config" &
server=$!
trap 'kill -TERM "$server" 2> /dev/null || :' EXIT

end_sessions() {
  for session in "$files/sessions"/*; do
    [ -e "$session" ] && kill -TERM "${session##*/}" 2> /dev/null || :
  done
}

if [ "$DI_MPI_INDEX" != 0 ]; then
  # A session that begins now finds the first file, or is in the list.
  trap 'touch "$files/stopping"; end_sessions; touch "$files/ended"' TERM INT
  while [ ! -e "$files/ended" ]; do
    kill -0 "$server" 2> /dev/null || fail "sshd has ended"
    sleep 0.2 &
    wait $! || :
  done
  # mpirun ends when the processes have ended, maybe before their sessions.
  while [ -n "$(ls "$files/sessions")" ]; do sleep 0.1; done
  exit 0
fi

hosts=$(echo "$DI_MPI_HOSTS" | tr , ' ')
for host in $hosts; do
  echo "$host slots=$DI_MPI_SLOTS" >> "$files/hostfile"
  echo "$host:$DI_MPI_SLOTS" >> "$files/hydra_hosts"
done
latest=$(($(date +%s) + DI_MPI_WAIT_SECONDS))
for host in $hosts; do
  until "$files/ssh" "$host" true 2> "$files/refusal"; do
    [ "$(date +%s)" -lt "$latest" ] ||
      fail "no ssh to $host within $DI_MPI_WAIT_SECONDS seconds: $(cat "$files/refusal")"
    sleep 0.5
  done
done

# OpenMPI 4, OpenMPI 5, MPICH, and Intel's.
export OMPI_MCA_orte_default_hostfile="$files/hostfile" OMPI_MCA_plm_rsh_agent="$files/ssh"
export OMPI_MCA_orte_keep_fqdn_hostnames=true
export PRTE_MCA_prte_default_hostfile="$files/hostfile" PRTE_MCA_plm_ssh_agent="$files/ssh"
export PRTE_MCA_prte_keep_fqdn_hostnames=true
export HYDRA_HOST_FILE="$files/hydra_hosts" HYDRA_LAUNCHER=ssh HYDRA_LAUNCHER_EXEC="$files/ssh"
export I_MPI_HYDRA_HOST_FILE="$files/hydra_hosts" I_MPI_HYDRA_BOOTSTRAP=ssh
export I_MPI_HYDRA_BOOTSTRAP_EXEC="$files/ssh"

exec 3<&0
"$@" <&3 &
program=$!
trap 'kill -TERM "$program" 2> /dev/null || :' TERM INT
code=0
wait "$program" || code=$?
# A signal ends the wait, not the program.
while kill -0 "$program" 2> /dev/null; do
  code=0
  wait "$program" || code=$?
done
if [ "$code" = 0 ]; then
  for host in $hosts; do
    "$files/ssh" "$host" di-mpi-end || echo "di-mpi: $host does not end" >&2
  done
fi
exit "$code"
