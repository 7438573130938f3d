# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by jobs/quickstart, tests/run and .ci/run: packages, configure, build.
#
#   . "$(dirname "${BASH_SOURCE[0]}")/../cluster/setup.sh"
#   setup_packages build run          install what is missing of these groups
#   setup_configure release [-D...]   cmake --preset
#   setup_build release [target...]   cmake --build --preset
#
# Sets LUMEN_ROOT, the checkout, and works from any current directory. Long
# output goes to build/setup/*.log; the end of it is shown when a step fails.
# Every function returns non-zero on failure and says what to do.

LUMEN_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SETUP_LIST=$LUMEN_ROOT/cluster/packages.debian
SETUP_LOGS=$LUMEN_ROOT/build/setup

setup_say() { printf '== %s\n' "$*"; }

# setup_run LOG COMMAND...: quiet; on failure the last lines of the log.
setup_run() {
  local log=$SETUP_LOGS/$1
  shift
  mkdir -p "$SETUP_LOGS"
  if "$@" >"$log" 2>&1 </dev/null; then return 0; fi
  printf '%s\n' "failed: $*" "the end of $log:" >&2
  tail -n 30 "$log" | sed 's/^/  | /' >&2
  return 1
}

# setup_list GROUP...: one line per package, "name[|other]<tab>what it is".
setup_list() {
  awk -v groups=" $* " '
    /^\[/ { gsub(/[][]/, ""); wanted = index(groups, " " $1 " "); next }
    /^#/ || NF == 0 || !wanted { next }
    { what = $0; sub(/^[^#]*# */, "", what)
      sub(/ *#.*/, ""); gsub(/ /, ""); print $0 "\t" what }' "$SETUP_LIST"
}

# setup_missing GROUP...: the lines of setup_list that are not installed.
setup_missing() {
  setup_list "$@" | awk -F'\t' '
    NR == FNR { if ($2 == "installed") have[$1] = 1; next }
    { n = split($1, names, "|"); found = 0
      for (i = 1; i <= n; ++i) if (names[i] in have) found = 1
      if (!found) print }' \
    <(dpkg-query -W -f '${Package}\t${db:Status-Status}\n' 2>/dev/null) -
}

# The first alternative of NAME|OTHER that the package index knows.
setup_choose() {
  local name
  for name in ${1//|/ }; do
    if apt-cache show "$name" >/dev/null 2>&1; then
      echo "$name"
      return 0
    fi
  done
  return 1
}

# setup_as_root COMMAND...: as root or with sudo.
setup_as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

setup_can_be_root() {
  [ "$(id -u)" = 0 ] && return 0
  command -v sudo >/dev/null || return 1
  sudo -n true 2>/dev/null && return 0
  [ -t 0 ] && [ -t 2 ] && sudo -v   # may ask for the password
}

setup_apt() {
  setup_as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=600 "$@"
}

# setup_packages GROUP...: installs what is missing, never removes a package.
setup_packages() {
  local missing names=() line name
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    setup_elsewhere "$(setup_list "$@")"
    return
  fi
  missing=$(setup_missing "$@")
  [ -n "$missing" ] || return 0
  if ! setup_can_be_root; then
    setup_elsewhere "$missing"
    return
  fi
  setup_say "installing $(wc -l <<<"$missing") packages"
  local updated=
  while IFS=$'\t' read -r line _; do
    if ! name=$(setup_choose "$line") && [ -z "$updated" ]; then
      setup_run apt-update.log setup_apt update || return 1
      updated=1
      name=$(setup_choose "$line")
    fi
    if [ -z "$name" ]; then
      echo "no package ${line//|/ or } is known to apt here" >&2
      setup_elsewhere "$missing"
      return
    fi
    names+=("$name")
  done <<<"$missing"
  setup_install "${names[@]}" && return 0
  if [ -z "$updated" ]; then   # the index may be older than the archive
    setup_say "once more with a fresh package index"
    setup_run apt-update.log setup_apt update &&
      setup_install "${names[@]}" && return 0
  fi
  if grep -q 'need to be removed\|remove is disabled' \
    "$SETUP_LOGS/apt-install.log"; then
    echo "An installed package is in the way (Boost 1.74's headers conflict" \
      "with 1.81): remove it, or build against a private prefix, see" \
      "cluster/README.md." >&2
  fi
  return 1
}

setup_install() {
  setup_run apt-install.log setup_apt install -y --no-install-recommends \
    --no-remove "$@"
}

# No root or no apt: says what is needed and goes on if the tools are there.
setup_elsewhere() {
  local system tool absent=()
  system=$(. /etc/os-release 2>/dev/null && echo "${PRETTY_NAME:-}")
  echo "Cannot install packages here (${system:-unknown system}, user $(id -un))."
  if command -v apt-get >/dev/null; then
    echo "Missing; let an administrator run:"
    echo "  apt-get install --no-install-recommends" \
      "$(cut -f1 <<<"$1" | sed 's/|.*//' | tr '\n' ' ')"
    echo "or unpack them without root: cluster/private_prefix DIR"
  else
    echo "Needed, by the names that Debian gives them:"
    awk -F'\t' '{ sub(/[|].*/, "", $1); printf "  %-28s %s\n", $1, $2 }' <<<"$1"
  fi
  cat <<'TEXT'
On a cluster load them as modules (module load gcc cmake openmpi boost hdf5), or
name the folders they live in, then start this again:
  export CMAKE_PREFIX_PATH=DIR[:DIR...] PKG_CONFIG_PATH=DIR/lib/pkgconfig
cluster/README.md, "Without root", has the recipe that was tried.
TEXT
  for tool in c++ cmake ninja pkg-config mpirun; do
    command -v $tool >/dev/null || absent+=("$tool")
  done
  if [ ${#absent[@]} -gt 0 ]; then
    echo "Stopping: not found on the PATH: ${absent[*]}" >&2
    return 1
  fi
  setup_say "the tools are there, going on: CMake will name what it misses"
}

# Physical cores that this process may use: two hardware threads of a core share
# its FMA units.
setup_cores() {
  local cores allowed
  cores=$(lscpu -p=CORE,SOCKET 2>/dev/null | grep -v '^#' | sort -u | wc -l)
  allowed=$(nproc)
  echo $((cores > 0 && cores < allowed ? cores : allowed))
}

# setup_configure PRESET [-DNAME=VALUE...]
setup_configure() {
  local preset=$1
  shift
  cd "$LUMEN_ROOT" || return 1
  setup_run "configure-$preset.log" cmake --preset "$preset" "$@" && return 0
  echo "A library that is not found: cluster/packages.debian names its package;" \
    "in a folder of its own: export CMAKE_PREFIX_PATH=DIR" >&2
  return 1
}

# setup_build PRESET [TARGET...]: one progress line on a terminal, elsewhere one
# every ten seconds; warnings and errors in full.
setup_build() {
  local preset=$1 begin=$SECONDS log
  shift
  cd "$LUMEN_ROOT" || return 1
  log=$SETUP_LOGS/build-$preset.log
  mkdir -p "$SETUP_LOGS"
  setup_say "building $preset${*:+: $*}"
  local command=(cmake --build --preset "$preset" --parallel
    "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" ${1:+--target "$@"})
  if [ -t 1 ]; then
    "${command[@]}" </dev/null || return 1
  else
    "${command[@]}" 2>&1 </dev/null | tee "$log" | setup_thin
    [ "${PIPESTATUS[0]}" = 0 ] || return 1
  fi
  setup_say "built in $((SECONDS - begin)) s"
}

# Drops Ninja's progress lines except one every ten seconds.
setup_thin() {
  local line last=$SECONDS
  while IFS= read -r line; do
    if [[ $line =~ ^\[[0-9]+/[0-9]+\]\  ]]; then
      ((SECONDS - last < 10)) && continue
      last=$SECONDS
    fi
    printf '%s\n' "$line"
  done
}
