# SKIP="gpu-operator ..."  charts that this cluster has already
# WAIT_SECONDS=N           wait so long for each step instead of the times below
set -euo pipefail
cd "$(dirname "$0")"

for tool in helm kubectl; do
  command -v "$tool" >/dev/null || { echo "install.sh: $tool is not on PATH" >&2; exit 2; }
done

say() { printf '== %s\n' "$*"; }

# chart RELEASE NAMESPACE VALUES CHART...
chart() {
  local release=$1 namespace=$2 values=$3
  shift 3
  case " ${SKIP:-} " in
    *" $release "*) say "leaving out chart $release"; return ;;
  esac
  say "installing chart $release in namespace $namespace"
  helm upgrade --install "$release" "$@" --namespace "$namespace" --create-namespace --values "$values" --timeout 15m
}

# apply FILE WHAT
apply() {
  say "applying $2 ($1)"
  kubectl apply --server-side --field-manager="trackbed-$stack" -f "$1"
}

# wait_for SECONDS CONDITION RESOURCE...: also for what does not exist yet, which kubectl wait alone refuses
wait_for() {
  local seconds=${WAIT_SECONDS:-$1} condition=$2 deadline left
  shift 2
  say "waiting up to $seconds s for $*: $condition"
  deadline=$((SECONDS + seconds))
  while left=$((deadline - SECONDS)); [ "$left" -gt 0 ]; do
    if ask "$left" "$condition" "$@"; then return; fi
    sleep 5
  done
  echo "install.sh: $* did not get to $condition in $seconds s; see kubectl describe, then run this again" >&2
  exit 1
}

# ask SECONDS CONDITION RESOURCE...
ask() {
  local seconds=$1 condition=$2
  shift 2
  case $condition in
    rolled-out) kubectl rollout status "--timeout=${seconds}s" "$@" ;;
    *) kubectl wait "--for=$condition" "--timeout=${seconds}s" "$@" ;;
  esac
}

# offering COLUMNS: how many nodes have some of every resource
offering() {
  kubectl get nodes --no-headers -o "$1" | grep -cvE '(^| )(0|<none>)( |$)' || true
}

# offered SECONDS NODES RESOURCES COLUMNS: one question for all nodes, where kubectl wait asks about each of them
offered() {
  local seconds=${WAIT_SECONDS:-$1} deadline found
  say "waiting up to $seconds s for $2 nodes that offer $3"
  deadline=$((SECONDS + seconds))
  while found=$(offering "$4"); [ "$found" -lt "$2" ]; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      echo "install.sh: $found of $2 nodes offer $3; trackbed doctor on the others says why, then run this again" >&2
      exit 1
    fi
    sleep 5
  done
}

count() { kubectl get nodes -l "$1" -o name | wc -l; }

# labelled LABEL NODES SECONDS: a few nodes may be down for long, so some are enough to go on
labelled() {
  local seconds=${WAIT_SECONDS:-$3} deadline found
  say "waiting up to $seconds s for $2 nodes with label $1"
  deadline=$((SECONDS + seconds))
  while found=$(count "$1"); [ "$found" -lt "$2" ] && [ "$SECONDS" -lt "$deadline" ]; do
    sleep 5
  done
  if [ "$found" -eq 0 ]; then
    echo "install.sh: no node has label $1: compare node and port names with those in *-nfd.yaml, look at NFD" >&2
    exit 1
  fi
  [ "$found" -ge "$2" ] || echo "install.sh: $found of $2 nodes have label $1; the others get it once they are up" >&2
}
