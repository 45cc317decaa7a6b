# SKIP="gpu-operator ..."  charts to leave out, as this cluster has them already
# WAIT_SECONDS=N           timeout of each wait, instead of those below
set -euo pipefail
cd "$(dirname "$0")"

for tool in helm kubectl; do
  command -v "$tool" >/dev/null || { echo "install.sh: $tool is not on PATH" >&2; exit 2; }
done

say() { printf '== %s\n' "$*"; }

# install_chart RELEASE NAMESPACE VALUES CHART...
install_chart() {
  local release=$1 namespace=$2 values=$3
  shift 3
  case " ${SKIP:-} " in
    *" $release "*) say "leaving out chart $release"; return ;;
  esac
  say "installing chart $release in namespace $namespace"
  helm upgrade --install "$release" "$@" --namespace "$namespace" --create-namespace --values "$values" --timeout 15m
}

# apply_file FILE TITLE [KUBECTL-OPTION...]
apply_file() {
  local file=$1
  say "applying $2 ($file)"
  shift 2
  kubectl apply --server-side --field-manager="trackbed-$stack" "$@" -f "$file"
}

# list_foreign_objects NAMESPACE NAME KINDS: prints the objects of these kinds that have another name
list_foreign_objects() {
  local objects
  objects=$(kubectl get "$3" --namespace "$1" -o name) || return
  printf '%s\n' "$objects" | awk -F / -v name="$2" '$2 != "" && $2 != name { print }'
}

# apply_unless_foreign NAMESPACE NAME KINDS FILE TITLE [KUBECTL-OPTION...]
# Leaves out what is installed already under other names, as a second OperatorGroup fails all operators of a namespace.
apply_unless_foreign() {
  local foreign
  foreign=$(list_foreign_objects "$1" "$2" "$3") || exit
  if [ -z "$foreign" ]; then
    apply_file "${@:4}"
  else
    say "leaving out $5 ($4), as namespace $1 has ${foreign//$'\n'/, }"
  fi
}

# wait_for SECONDS CONDITION RESOURCE...
# Unlike kubectl wait alone, also waits for resources that do not exist yet.
wait_for() {
  local seconds=${WAIT_SECONDS:-$1} condition=$2 deadline left
  shift 2
  say "waiting up to $seconds s for $*: $condition"
  deadline=$((SECONDS + seconds))
  while left=$((deadline - SECONDS)); [ "$left" -gt 0 ]; do
    if try_wait "$left" "$condition" "$@"; then return; fi
    sleep 5
  done
  echo "install.sh: $* did not get to $condition in $seconds s; see kubectl describe, then run this again" >&2
  exit 1
}

# try_wait SECONDS CONDITION RESOURCE...
try_wait() {
  local seconds=$1 condition=$2
  shift 2
  case $condition in
    rolled-out) kubectl rollout status "--timeout=${seconds}s" "$@" ;;
    *) kubectl wait "--for=$condition" "--timeout=${seconds}s" "$@" ;;
  esac
}

# count_offering_nodes COLUMNS: prints the number of nodes that have some of every resource
count_offering_nodes() {
  kubectl get nodes --no-headers -o "$1" | grep -cvE '(^| )(0|<none>)( |$)' || true
}

# wait_for_resources SECONDS NODES RESOURCES COLUMNS
# Reads all nodes with one request, whereas kubectl wait would watch each of them.
wait_for_resources() {
  local seconds=${WAIT_SECONDS:-$1} deadline found
  say "waiting up to $seconds s for $2 nodes that offer $3"
  deadline=$((SECONDS + seconds))
  while found=$(count_offering_nodes "$4"); [ "$found" -lt "$2" ]; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      echo "install.sh: $found of $2 nodes offer $3; trackbed doctor on the others says why, then run this again" >&2
      exit 1
    fi
    sleep 5
  done
}

count_labelled_nodes() { kubectl get nodes -l "$1" -o name | wc -l; }

# wait_for_label LABEL NODES SECONDS
# After the timeout it continues if any node has the label, as a few nodes may be down for long.
wait_for_label() {
  local seconds=${WAIT_SECONDS:-$3} deadline found
  say "waiting up to $seconds s for $2 nodes with label $1"
  deadline=$((SECONDS + seconds))
  while found=$(count_labelled_nodes "$1"); [ "$found" -lt "$2" ] && [ "$SECONDS" -lt "$deadline" ]; do
    sleep 5
  done
  if [ "$found" -eq 0 ]; then
    echo "install.sh: no node has label $1: compare node and port names with those in *-nfd.yaml, look at NFD" >&2
    exit 1
  fi
  [ "$found" -ge "$2" ] || echo "install.sh: $found of $2 nodes have label $1; the others get it once they are up" >&2
}
