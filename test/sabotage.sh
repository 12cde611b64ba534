#!/bin/bash
# test/sabotage.sh [NAME...]                  breaks the code as test/sabotage/NAME.patch says, or as all of them say, and runs tests
# test/sabotage.sh FILE.patch... [TEST...]    the same with patches of your own
# test/sabotage.sh --list                     what there is
# test/sabotage.sh --check                    do all patches in test/sabotage apply and compile?  Runs no test.
#
# Every test must be able to fail.  One sabotage after the other is applied, to a copy of the source tree, built, and given to the tests
# that should notice; which they are stands in the patch's header (`Tests:`).  A test that is red without the patch as well does not count.
# The tree itself is never touched, so there is nothing to revert, however this ends.
#
# A patch is a unified diff, of any file of the source, for patch -p1 or -p0 at the top.  A TEST is PART/PATTERN (tap/hash_*), a part
# (isolation), or a name or pattern (hash_model).  Where none is said, a patch of your own gets everything: parts and groups of tests in an
# order in which failures come early, until one is red.
#
# Environment: PG_CONFIG   the PostgreSQL to test with; stop points, which many tests need, are in servers with assertions only
#              ASSERT_PREFIX  without PG_CONFIG: where such a server is, or is built (as make test-assert does)
#              JOBS, PG_SOURCE  as for test/run
#              KEEP=1      leaves the work directory where it is
# Exit status: 0 all were noticed, 1 one was not, 2 nothing could be said: no such patch or test, one that doesn't apply or compile
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/test/lib.sh"

parts="regress isolation core tap unbatched"
child=							# what runs in the background
red=							# what run_tests found red
seen=							# of which the patch is the reason
noticed=0 unnoticed=0 unfit=0
limit=							# seconds for a part
told=							# is the exit status what was found?

refuse() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 2; }
usage() { sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p;}' "$0"; }

on_exit() {
	local status=$?
	set +e
	trap - EXIT
	trap : INT TERM HUP
	[ $status != 1 ] || [ -n "$told" ] || status=2
	[ -z "$child" ] || { kill -TERM "$child" 2>/dev/null; wait "$child"; }
	[ -n "${work:-}" ] || exit $status
	stop_servers
	if [ -n "${KEEP:-}" ]; then say "everything is in $work"; else rm -rf "$work"; fi
	exit $status
}

# in_background COMMAND...: a shell that waits for a foreground command does not see a signal before that has ended.
in_background() {
	local status=0
	"$@" &
	child=$!
	wait "$child" || status=$?
	child=
	return $status
}

# header FILE FIELD: what a patch of ours says of itself in front of the diff, as "FIELD: ...", on one or more lines.
header() {
	sed -n "/^--- /q; /^diff /q; /^[A-Z][a-z]*: /s/^/\n/; p" "$1" | awk -v field="$2: " '
		/^$/ { on = 0; next }
		index($0, field) == 1 { on = 1; $0 = substr($0, length(field) + 1); print; next }
		/^[A-Z][a-z]*: / { on = 0 }
		on { sub(/^[ \t]+/, ""); print }' | paste -s -d ' '
}

# tests_of TREE PART: the names of its tests.
tests_of() {
	local files
	case $2 in
		regress | unbatched) files=("$1"/sql/*.sql) ;;
		isolation) files=("$1"/test/isolation/*.spec) ;;
		core) files=("$1"/test/core/*.accepted) ;;
		tap) files=("$1"/test/t/*.pl) ;;
	esac
	files=("${files[@]##*/}")
	say "${files[@]%.*}"
}

# matching TREE PART PATTERN
matching() {
	local name
	for name in $(tests_of "$1" "$2"); do
		case $name in $3) say "$name" ;; esac
	done
}

# steps TREE TEST...: what is to be run, a line each: a part and names.
steps() {
	local tree=$1 test part names some
	shift
	for test in "$@"; do
		some=
		case $test in
			*/*) some=$(matching "$tree" "${test%%/*}" "${test#*/}" | paste -s -d ' ')
				[ -z "$some" ] || say "${test%%/*} $some" ;;
			*)
				for part in $parts; do
					if [ "$part" = "$test" ]; then names=$(tests_of "$tree" "$part")
					elif [ "$part" = unbatched ]; then names=
					else names=$(matching "$tree" "$part" "$test"); fi
					[ -n "$names" ] || continue
					some=1
					say "$part $(paste -s -d ' ' <<< "$names")"
				done ;;
		esac
		[ -n "$some" ] || { say "there is no test \"$test\"" >&2; return 1; }
	done
}

# all_steps TREE PATCH: everything.  Of the TAP tests those of the subsystems that the patch touches come first.
all_steps() {
	local tree=$1 groups="" rest pattern
	for pattern in blink batch hash table opclass verify; do
		if grep -q "^+++ .*src/$pattern/" "$2"; then groups="${pattern}_* $groups"; else groups="$groups ${pattern}_*"; fi
	done
	steps "$tree" regress isolation "tap/*_unit"
	rest=$(tests_of "$tree" tap | grep -v '_unit$')
	for pattern in $groups; do
		steps "$tree" "tap/$pattern" | sed 's/ [a-z_]*_unit\>//g'
		rest=$(grep -v "^${pattern%\*}" <<< "$rest")
	done
	say "tap $(paste -s -d ' ' <<< "$rest")"
	for pattern in $(tests_of "$tree" core); do say "core $pattern"; done
	steps "$tree" unbatched
}

# run_tests TREE OUT PART NAME...: sets red to the names of those that failed.  (Not to be called in a subshell, which would not pass on a
# signal.)
run_tests() {
	local tree=$1 out=$2 part=$3
	shift 3
	red=
	if in_background env OBJECTS=1 PG_CONFIG="$PG_CONFIG" PARTS="$part" TESTS="$*" TMPDIR="$work/tmp" PART_TIMEOUT="$limit" \
		PERL5OPT="-I$tree/test/perl -MMtpFirst" KEEP= "$tree/test/run" > "$out" 2>&1; then
		return 0
	fi
	case $part in
		tap) red=$(sed -n 's|^test/t/\([A-Za-z0-9_]*\)\.pl  *(Wstat:.*|\1|p' "$out") ;;
		core) ;;
		*) red=$(sed -n 's/^test \([A-Za-z0-9_]*\) .*\.\.\. FAILED.*/\1/p' "$out") ;;
	esac
	# A test that took too long is not named, nor one of core's.
	red=${red:-$*}
}

# run_base PART NAME...: runs those without the patch that have not been yet; $work/base has a file for each, which is not empty where it is red.
run_base() {
	local part=$1 name new=()
	shift
	for name in "$@"; do
		[ -e "$work/base-$part-$name" ] || new+=("$name")
	done
	[ ${#new[@]} != 0 ] || return 0
	run_tests "$work/base" "$work/base-$part.log" "$part" "${new[@]}"
	for name in "${new[@]}"; do
		case " $(say $red | paste -s -d ' ') " in *" $name "*) say red ;; esac > "$work/base-$part-$name"
	done
}

# count_red PART NAME...: adds those to seen that are red by the patch.
count_red() {
	local part=$1 name
	shift
	run_base "$part" "$@"
	for name in "$@"; do
		if [ -s "$work/base-$part-$name" ]; then
			say "   $part/$name is red without the patch as well"
		else
			seen+=" $part/$name"
		fi
	done
}

# fits PATCH TREE FUZZ: can it be applied?  Sets strip, or says why not.
fits() {
	for strip in 1 0; do
		"${RUN[@]}" patch -d "$2" -p$strip -f -F "$3" -r - --no-backup-if-mismatch --dry-run < "$1" > "$work/patch$strip.log" 2>&1 && return 0
	done
	grep -hv '^|' "$work/patch1.log"
	return 1
}

# apply PATCH TREE FUZZ: after fits.
apply() { "${RUN[@]}" patch -d "$2" -p"$strip" -f -F "$3" -r - --no-backup-if-mismatch < "$1" > "$work/patch.log" 2>&1; }

# show_errors: of the compiler, the linker, or make; not the commands, which have -Werror in them.
show_errors() { grep -E ': (fatal )?error: |: undefined |^make.*\*\*\*' "$work/make.log" | head -n 20 || true; }

# build TREE: only what is new.  Warnings are no matter: a function that a sabotage left without a caller is one.
build() {
	in_background make_quietly "$1" all CC="$("$PG_CONFIG" --cc) -w" > "$work/make.log" 2>&1 && return 0
	show_errors
	return 1
}

# build_base: once, when it is known that there is something to do.
build_base() {
	[ ! -e "$work/built" ] || return 0
	build "$work/base" || refuse "the source tree does not compile"
	touch "$work/built"
}

unfit() {
	say "   $*"
	unfit=$((unfit + 1))
}

# sabotage PATCH TEST...
sabotage() {
	local file=$1 name what tree=$work/tree began=$SECONDS line steps strip
	shift
	name=${file##*/}
	name=${name%.*}
	seen=
	what=$(header "$file" Sabotage)
	say "== $name${what:+: $what}"
	fits "$file" "$work/base" 2 || { unfit "$file does not apply"; return; }
	build_base
	rm -rf "$tree"
	"${RUN[@]}" cp -a "$work/base" "$tree"
	apply "$file" "$tree" 2
	build "$tree" || { unfit "$file does not compile"; return; }
	if [ $# = 0 ]; then
		set -f
		set -- $(header "$file" Tests)
		set +f
	fi
	limit=$([ $# = 0 ] && say 3000 || say 900)
	if [ $# = 0 ]; then steps=$(all_steps "$tree" "$file"); else steps=$(steps "$tree" "$@") || { unfit "$file asks for tests that are not there"; return; }; fi
	while read -r line; do
		set -- $line
		run_tests "$tree" "$work/$name-$1.log" "$@" < /dev/null
		[ -z "$red" ] || count_red "$1" $red
		[ -z "$seen" ] || break
	done <<< "$steps"
	if [ -n "$seen" ]; then
		say "   noticed by$seen, $((SECONDS - began)) s"
		noticed=$((noticed + 1))
	else
		say "   NOT noticed, $((SECONDS - began)) s"
		unnoticed=$((unnoticed + 1))
	fi
}

# check PATCH: applied without any fuzz, its files compiled as far as errors go, its tests there; and taken back.
check() {
	local file=$1 strip ok=0
	fits "$file" "$work/base" 0 || return 1
	apply "$file" "$work/base" 0
	check_applied "$file" || ok=1
	"${RUN[@]}" patch -d "$work/base" -p"$strip" -R -f -E --no-backup-if-mismatch < "$file" > "$work/patch.log" || ok=1
	return $ok
}

check_applied() {
	local file=$1 objects field
	for field in Sabotage Why Tests; do
		[ -n "$(header "$file" $field)" ] || { say "it has no line \"$field: ...\""; return 1; }
	done
	set -f
	set -- $(header "$file" Tests)
	set +f
	steps "$work/base" "$@" > /dev/null || return 1
	objects=$(sed -n 's|^+++ \(b/\)\{0,1\}\(src/[^ \t]*\)\.c\([ \t].*\)\{0,1\}$|\2.o|p' "$file")
	# Of a header, what lies beside it.
	objects="$objects $(cd "$work/base" && sed -n 's|^+++ \(b/\)\{0,1\}\(src/.*/\)[^/]*\.h\([ \t].*\)\{0,1\}$|\2|p' "$file" | sort -u |
		while read -r dir; do printf '%s ' "$dir"*.c; done | sed 's/\.c /.o /g')"
	make_quietly "$work/base" $objects CC="$("$PG_CONFIG" --cc) -w" COPT=-fsyntax-only > "$work/make.log" 2>&1 || { show_errors; return 1; }
}

patches=() tests=() mode=run
for arg in "$@"; do
	case $arg in
		--check | --list) mode=${arg#--} ;;
		-h | --help) usage; exit 0 ;;
		-*) refuse "there is no option $arg" ;;
		*)
			if [ -f "$arg" ]; then patches+=("$(realpath "$arg")")
			elif [ -f "$top/test/sabotage/$arg.patch" ]; then patches+=("$top/test/sabotage/$arg.patch")
			elif steps "$top" "$arg" > /dev/null 2>&1; then tests+=("$arg")
			else refuse "\"$arg\" is no sabotage, no patch file and no test"; fi ;;
	esac
done
[ ${#patches[@]} != 0 ] || patches=("$top"/test/sabotage/*.patch)

if [ $mode = list ]; then
	for file in "${patches[@]}"; do
		name=${file##*/}
		printf '%-28s %s\n%-28s %s\n' "${name%.patch}" "$(header "$file" Sabotage)" "" "-> $(header "$file" Tests)"
	done
	exit 0
fi

trap on_exit EXIT
trap 'exit 130' INT TERM HUP
work=$(mktemp -d "${TMPDIR:-/tmp}/mtpower-sabotage.XXXXXX")
chmod 755 "$work"
command -v patch > /dev/null || [ "$(id -u)" = 0 ] || refuse "patch is missing on this machine"
if [ $mode = run ] && [ -z "${PG_CONFIG:-}" ]; then
	"$top/test/build-server" assert "${ASSERT_PREFIX:=/opt/mtpower-pg15-assert}"
	PG_CONFIG=$ASSERT_PREFIX/bin/pg_config
fi
find_postgres
install_missing
choose_user
mkdir "$work/tmp"
copy_source "$work/base"
[ "$(id -u)" != 0 ] || chown "$worker:$worker" "$work" "$work/tmp"
export HOME=$work

if [ $mode = check ]; then
	bad=0
	for file in "${patches[@]}"; do
		check "$file" || { say "$file: not fit any more"; bad=1; }
	done
	say "${#patches[@]} patches, $([ $bad = 0 ] && say "all" || say "not all") apply and compile"
	exit $((2 * bad))
fi

say "with $("$PG_CONFIG" --version)$(has_stop_points || say ", which has no stop points: tests that need them are skipped")"
for file in "${patches[@]}"; do
	sabotage "$file" "${tests[@]}"
done
say "$((noticed + unnoticed)) sabotages, $noticed noticed, $unnoticed NOT noticed$([ $unfit = 0 ] || say ", and $unfit could not be tried")"
[ $unfit = 0 ] || exit 2
told=1
[ $unnoticed = 0 ]
