# test/core/suites.sh: the part core: PostgreSQL's own suites on mtpower's tables and indexes.  To
# be sourced by test/run.
#
# Core's own suites, with mtpower's access methods in place of core's: name, what is switched, and
# of each of the three suites how many indexes and scans of ours there must be at least.
core_configurations="table none 0 0 0 0 0 0
small none 0 0 0 0 0 0
blink index_switch.btree 350 900 85 75 2 5
hash index_switch.hash 22 30 38 75 0 0"

# How many tables and indexes of ours the suites leave behind at least, which are then checked.
core_left="core_table_regress 200 0
core_hash_regress 200 4
core_table_contrib 30 0
core_blink_contrib 30 1
core_hash_contrib 30 0"

# Contrib's suites that make indexes, or operator classes for them.
core_contrib="citext hstore ltree isn seg cube btree_gist intarray pg_trgm bloom"

run_core() {
	local name switch expected
	[ -z "${TESTS:-}" ] || [ -n "$(core_chosen)" ] || return 0
	say "== core"
	prepare_core
	while read -r name switch expected; do
		set -- $expected
		core_suite "$name" "$switch" regress "$1" "$2"
		core_suite "$name" "$switch" isolation "$3" "$4"
		core_suite "$name" "$switch" contrib "$5" "$6"
	done <<< "$core_configurations"
}

# The source of the suites, whose version is the server's or near to it, and the two libraries that
# they need.
prepare_core() {
	local tarball=${PG_SOURCE:-}
	core=$work/core core_other=
	mkdir "$core"
	[ -n "$tarball" ] ||
		download_source "$major" "$("$PG_CONFIG" --version | sed 's/^PostgreSQL [0-9]*\.\([0-9]*\).*/\1/')"
	tar -C "$core" --strip-components=1 -xf "$tarball" --wildcards '*/configure' \
		'*/src/test/regress' '*/src/test/isolation' '*/src/include' \
		$(printf '*/contrib/%s ' $core_contrib)
	mkdir "$core/lib"
	cp "$pkglibdir"/{autoinc,refint}.so "$core/lib/"
	[ "$(id -u)" != 0 ] || chown -R "$worker:$worker" "$core"
	if ! make_quietly "$source/test/core" all CORE="$core" > "$log/core.log" 2>&1; then
		tail -n 20 "$log/core.log"
		die "the libraries for core's suites could not be built"
	fi
	cp "$source/test/core/regress.so" "$core/lib/"
	cp "$source/test/core/index_switch.so" "$pkglibdir/"
	other_version || return 0
	core_expected regress
	core_expected isolation
	core_expected contrib
}

# Is the suites' version another than the server's?
other_version() {
	local version
	version=$(sed -n "s/^PACKAGE_VERSION='\(.*\)'/\1/p" "$core/configure")
	say "core's suites are of PostgreSQL $version"
	case $("$PG_CONFIG" --version) in
		"PostgreSQL $version" | "PostgreSQL $version "*) return 1 ;;
	esac
}

# core_expected SUITE: what the server prints without mtpower is what is expected, where its version
# differs from the suite's.
core_expected() {
	local suite=$1 name=core_plain_$1 expected result tests=
	say "fsync = off" "max_prepared_transactions = 10" > "$work/$name.conf"
	run_core_suite "$name" "$suite"
	grep -qE '^(test |(not )?ok )' "$log/$name/out" || die "core's suite $suite did not run"
	while read -r expected result; do
		tests+="$(basename "$result" .out) "
		expected=${expected%/*}/$(basename "$result" .out)
		rm -f "$expected"_[0-9].out
		cp "$result" "$expected.out"
	done < <(sed -n 's|^diff .* \(/[^ ]*\) \(/[^ ]*\)$|\1 \2|p' "$log/$name/regression.diffs" \
		2>/dev/null)
	core_other+=" $tests"
	say "without mtpower this version prints something else for $suite: ${tests:-nothing}"
}

# These suites run beside a standby, which is compared afterwards.
core_replayed=${CORE_REPLAYED:-core_blink_regress}

core_has_standby() { case " $core_replayed " in *" $1 "*) ;; *) return 1 ;; esac }

# run_core_suite NAME SUITE OPTION...: with the settings in $work/NAME.conf; everything goes to
# $log/NAME.
run_core_suite() {
	local name=$1 suite=$2 out=$log/$1 to=$log/$1/out options=() beside=() server=()
	shift 2
	"${RUN[@]}" mkdir -p "$out/results"
	case $suite in
		regress)
			options=("$pgxs/src/test/regress/pg_regress" --dlpath="$core/lib"
				--max-concurrent-tests=20 --schedule="$core/src/test/regress/parallel_schedule") ;;
		isolation)
			options=("$pgxs/src/test/isolation/pg_isolation_regress"
				--schedule="$core/src/test/isolation/isolation_schedule") ;;
		contrib) run_contrib "$name" "$@"; return 0 ;;
	esac
	if core_has_standby "$name"; then
		set_tap_env "$work/$name.tap"
		beside=("${tap_env[@]}" perl "$source/test/core/replay.pl" "$work/$name.conf"
			$((indexes / 8)) "$out/log/postmaster.log" "$out/out")
		to=$out/replay
	else
		server=(--bindir="$bindir" --temp-instance="$work/$name.pg"
			--temp-config="$work/$name.conf")
	fi
	supervised "$out" PG_REGRESS_DIFF_OPTS='-w -U0' "${beside[@]}" "${options[@]}" \
		$(input_at "$core/src/test/$suite") --outputdir="$out" "${server[@]}" \
		--no-locale --encoding=UTF8 "$@" > "$to" 2>&1 || true
}

# input_at DIR: where tests and what they print are
input_at() {
	say "--inputdir=$1"
	[ "$major" -lt 16 ] || say "--expecteddir=$1"
}

# run_contrib NAME OPTION...: contrib's suites, each in a database of its own, on one server.
run_contrib() {
	local name=$1 out=$log/$1 extension
	shift
	"${RUN[@]}" mkdir -p "$out/log"
	supervised "$out" "$bindir/initdb" -A trust -N --no-locale --encoding=UTF8 \
		-D "$work/$name.pg/data" > "$out/initdb.log" 2>&1 || return 0
	cat "$work/$name.conf" >> "$work/$name.pg/data/postgresql.conf"
	core_server "$name" start "$out/log/postmaster.log" || return 0
	for extension in $core_contrib; do
		"${RUN[@]}" mkdir "$out/$extension"
		# Some copy files by names relative to where they run.
		supervised "$core/contrib/$extension" PG_REGRESS_DIFF_OPTS='-w -U0' \
			"$pgxs/src/test/regress/pg_regress" $(input_at "$core/contrib/$extension") \
			--outputdir="$out/$extension" --bindir="$bindir" --host="$work" --port=65431 \
			--user="$worker" --dbname="contrib_$extension" --no-locale --encoding=UTF8 "$@" \
			$(contrib_tests "$extension") >> "$out/out" 2>&1 || true
		cat "$out/$extension/regression.diffs" >> "$out/regression.diffs" 2>/dev/null || true
	done
	core_server "$name" stop
}

# What an extension's Makefile lists
contrib_tests() {
	awk 'sub(/^REGRESS *=/, "") { on = 1 } on { on = sub(/\\$/, ""); print }' \
		"$core/contrib/$1/Makefile"
}

# core_server NAME start LOG, core_server NAME stop: the server of $work/NAME.pg
core_server() {
	local name=$1 options=()
	[ "$2" = stop ] || options=(-l "$3" -o "-p 65431 -k $work -c listen_addresses=")
	supervised "$work" "$bindir/pg_ctl" -D "$work/$name.pg/data" -w "${options[@]}" "$2" \
		>> "$log/$name/pg_ctl.log" 2>&1
}

core_psql() {
	supervised "$work" "$bindir/psql" -XAtq -v ON_ERROR_STOP=1 -h "$work" -p 65431 -d "$@"
}

# core_suite NAME SWITCH SUITE INDEXES SCANS
core_suite() {
	local name=core_$1_$3 switch=$2 suite=$3 indexes=$4 scans=$5
	[ -n "$(chosen "$name")" ] || return 0
	{
		say "shared_preload_libraries = 'mtpower, index_switch'" 'fsync = off' \
			'default_table_access_method = mtpower' 'max_prepared_transactions = 10'
		[ "$switch" = none ] || say "$switch = on"
		[ -z "$buffer" ] || say "mtpower.buffer_size = $buffer"
		# Every statement queues from its first row on.
		[ "$1" != small ] || say 'mtpower.batch_min_rows = 0' "mtpower.batch_size = '64kB'"
		# Their plans have directory scans once.
		[ "$suite" != regress ] || [ "$1" = table ] || say 'mtpower.enable_directoryscan = off'
	} > "$work/$name.conf"
	run_core_suite "$name" "$suite" --load-extension=mtpower
	core_result "$name" "$log/$name" "$indexes" "$scans"
	core_sound "$name"
}

# core_result NAME OUT INDEXES SCANS: a test passes that gave what core expects, or what is known to
# differ and why.
core_result() {
	local name=$1 out=$2 indexes=$3 scans=$4 accepted=$source/test/core/$major/$1.accepted ran differ bad=0 switched scanned plans least
	ran=$(grep -cE '^(test |     ).* \.\.\. (ok|FAILED)|^(not )?ok [0-9]+ ' "$out/out" || true)
	mkdir -p "$out/plans"
	[ -e "$accepted" ] || say "# nothing" > "$accepted"
	# With small batches all differs that does with tables alone, and a little more.
	if [[ $name = core_small_* ]]; then
		cat "${accepted/core_small_/core_table_}" "$accepted" > "$out/accepted"
		accepted=$out/accepted
	fi
	plans=$(perl "$source/test/core/plans.pl" "$out/regression.diffs" "$out/plans" \
		2>&1 > "$out/plans.diffs") || true
	perl "$source/test/core/compare.pl" "$accepted" "$out/plans.diffs" \
		$core_other > "$out/compared" || true
	differ=$(tail -n 1 "$out/compared")
	bad=$(sed -n 's/^[0-9]* tests differ, \([0-9]*\) not.*/\1/p' <<< "$differ")
	read -r switched scanned < <(
		sed -n 's/.*index_switch: \([0-9]*\) switched, \([0-9]*\) scans.*/\1 \2/p' \
			"$out/log/postmaster.log" |
		awk '{ i += $1; s += $2 } END { print i + 0, s + 0 }')
	say "$name: $ran tests, $differ; $switched indexes of mtpower, $scanned scans of them; $plans"
	if [ "${bad:-0}" != 0 ] || [ -z "$bad" ]; then
		cat "$out/compared"
		[ -n "$bad" ] || bad=1
	fi
	# A server that crashed, tests that did not run, too few indexes or directory scans
	if grep -E 'PANIC:|TRAP:|was terminated by signal' "$out/log/postmaster.log"; then
		bad=$((bad + 1))
	fi
	if [ "$ran" -lt "$(core_tests "$name")" ]; then
		say "$name: only $ran tests ran"
		bad=$((bad + 1))
	fi
	if core_has_standby "$name"; then core_replay "$out"; fi
	if [ "$switched" -lt "$indexes" ] || [ "$scanned" -lt "$scans" ]; then
		say "$name: expected $indexes indexes and $scans scans at least"
		bad=$((bad + 1))
	fi
	least=0
	# Without a buffer there is no directory to scan.
	if [ "$name" = core_table_regress ] && [ "$buffer" != 0 ]; then least=15; fi
	if [[ ! $plans =~ ^([0-9]+)" plans have directory scans" ]] ||
		[ "${BASH_REMATCH[1]}" -lt "$least" ]; then
		say "$name: expected $least plans with directory scans at least"
		bad=$((bad + 1))
	fi
	count $((ran > bad ? ran - bad : 0)) "$bad" 0 "$name"
}

# core_replay OUT: counts what was compared between the server and its standby.
core_replay() {
	local good
	good=$(grep -c '^ok ' "$1/replay" || true)
	say "$(sed -n 's/^# \(after the suite: .*\)/standby \1/p' "$1/replay")"
	if [ "$good" = 4 ] && grep -q '^1\.\.4$' "$1/replay" && ! grep -q '^not ok' "$1/replay"; then
		count 4 0
	else
		cat "$1/replay"
		tail -n 5 "$1/out"
		count "$good" 1 0 "the standby of core's suite"
	fi
}

# How many tests are in a suite
schedule_tests() { sed -n 's/^test: *//p' "$core/src/test/$1" | wc -w; }

core_tests() {
	case $1 in
		*_regress) schedule_tests regress/parallel_schedule ;;
		*_isolation) schedule_tests isolation/isolation_schedule ;;
		*_contrib) for extension in $core_contrib; do contrib_tests "$extension"; done | wc -w ;;
	esac
}

# core_sound NAME: what the suite has left behind, in all databases: every index of ours agrees with
# its table, and the tables, as heap tables again, and their btrees satisfy amcheck.  Where there is
# a standby, replay.pl has verified the indexes.
core_sound() {
	local name=$1 out=$log/$1/left tables indexes found_tables=0 found_indexes=0 bad=0 database t i
	! core_has_standby "$name" || return 0
	read -r tables indexes < <(sed -n "s/^$name //p" <<< "$core_left") || return 0
	if ! core_server "$name" start "$log/$name/left.log"; then
		say "$name: the server does not start again"
		count 0 1 0 "$name: the start after it"
		return 0
	fi
	for database in $(core_psql postgres -c 'SELECT datname FROM pg_database WHERE datallowconn')
	do
		core_psql "$database" -f "$source/test/core/left.sql" > "$out" 2>&1 || bad=$((bad + 1))
		read -r t i < <(sed -n 's/^left: //p' "$out") || t=0 i=0
		found_tables=$((found_tables + t)) found_indexes=$((found_indexes + i))
		if grep -v '^left: ' "$out" | sed "s/^/$name, $database: /" | grep .; then
			bad=$((bad + 1))
		fi
	done
	if ! supervised "$work" "$bindir/pg_amcheck" -h "$work" -p 65431 --all --install-missing --parent-check \
		--rootdescend --heapallindexed > "$out" 2>&1; then
		head -n 50 "$out"
		bad=$((bad + 1))
	fi
	core_server "$name" stop || true
	say "$name: $found_tables tables and $found_indexes indexes of mtpower checked afterwards"
	if [ "$found_tables" -lt "$tables" ] || [ "$found_indexes" -lt "$indexes" ]; then
		say "$name: expected $tables tables and $indexes indexes at least"
		bad=$((bad + 1))
	fi
	count $((bad == 0)) "$bad" 0 "$name: what it left"
}

core_chosen() {
	chosen $(list_tests)
}
