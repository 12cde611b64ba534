# test/clients.sh: the part clients: programs that others wrote do the same work on heap's tables
# and on mtpower's.  To be sourced by test/run.
#
# A client is a file of test/clients: NAME.sh, NAME.py or NAME.java.  Its header says what it needs:
#   Packages:    Debian's, with MAJOR for the server's release; only Debian's server has such
#   Python:      what pip installs
#   Maven:       a jar that is used in place of Debian's, where Maven is there and can have it
#   Extensions:  what both databases need
#   Steps:       which of these it has; without the line, load alone
#     prepare      makes input, once
#     load         the work, on each database; what it leaves is compared, and all indexes verified
#     after        more work, whose results are random; indexes are verified once more
#   Batched:     how many entries the engine must have put into indexes in the load at least
# A client's line has the first line of the file `version`, if it has written one.
#
# It is called with a step, in a directory of its own, with libpq's variables set.  TREE, HASH and
# ZONE are the access methods of indexes that it asks for: btree, hash, brin, or mtpower's.
# SERVER_LOG is the server's log.
#
# ROUNDS is how often each load is timed, on heap and mtpower in turn (1); medians are printed.

run_clients() {
	local name names
	names=$(chosen $(list_tests))
	[ -n "$names" ] || return 0
	say "== clients"
	clients=$work/clients client_log=$log/clients venv=$work/clients/venv
	"${RUN[@]}" mkdir "$clients" "$client_log"
	make_client_cluster
	for name in $names; do
		run_client "$name"
	done
}

# The password is for clients that know no Unix sockets; there is no way in for others.
make_client_cluster() {
	client_password=$(od -An -N 16 -tx1 /dev/urandom | tr -d ' \n')
	( umask 077; "${RUN[@]}" tee "$clients/password" <<< "$client_password" > /dev/null )
	supervised "$clients" "$bindir/initdb" --auth-local=trust --auth-host=scram-sha-256 -U postgres \
		--pwfile="$clients/password" --no-sync --no-locale --encoding=UTF8 -D "$clients/pg" \
		> "$client_log/initdb" 2>&1 || { cat "$client_log/initdb"; die "initdb failed"; }
	"${RUN[@]}" tee -a "$clients/pg/postgresql.conf" > /dev/null <<-END
		shared_preload_libraries = 'mtpower'
		listen_addresses = '127.0.0.1'
		unix_socket_directories = '$clients'
		fsync = off
		shared_buffers = 256MB
		max_wal_size = 4GB
		wal_level = logical
		log_line_prefix = '%m [%p] %q%d %e '
		log_error_verbosity = verbose
		$([ -z "$buffer" ] || say "mtpower.buffer_size = $buffer")
	END
}

# free_port: one above those that the system gives to clients
free_port() {
	local port
	for port in $(shuf -i 61000-65535 -n 20); do
		(exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null || { say "$port"; return 0; }
	done
	die "no port is free"
}

# needs FIELD: what the client's header says
needs() { sed -n "s|^[#/]* $1: *||p" "$client"; }

# run_client NAME: is one test.
run_client() {
	local client dir why= times= version=
	client=$(ls "$source/test/clients/$1".*)
	dir=$clients/$1
	"${RUN[@]}" mkdir "$dir"
	if ! install_client "$1"; then
		say "client $1 ... skipped: $why"
		count 0 0 1
		return 0
	fi
	if client_server "$1" start && client_work "$1" && client_server "$1" stop &&
		! client_crashed "$1"
	then
		say "client $1${version:+ $version} ... ok ($times)"
		count 1 0
	else
		tail -n 20 "$client_log/$1.out"
		client_crashed "$1" || true
		say "client $1 ... FAILED: $why"
		count 0 1 0 "client $1: $why"
		client_server "$1" stop || true
	fi
	rm -rf "$dir"
}

# install_client NAME: false, and sets why, if it can't be had here.
install_client() {
	local packages pip missing= package out=$client_log/$1.install
	packages=$(needs Packages) pip=$(needs Python)
	case $packages in *MAJOR*)
		packages=${packages//MAJOR/$major}
		why="its server packages are for Debian's PostgreSQL alone"
		[[ $("$PG_CONFIG" --bindir) = /usr/lib/postgresql/* ]] || return 1 ;;
	esac
	[ -z "$pip" ] || packages+=" python3-venv"
	for package in $packages; do
		dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q ' installed$' ||
			missing+=" $package"
	done
	if [ -n "$missing" ]; then
		why="missing here:$missing"
		[ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || return 1
		why="apt-get cannot install$missing: "
		apt_install $missing > "$out" 2>&1 || { why+=$(tail -n 1 "$out"); return 1; }
	fi
	# What has come to the server goes into its copy, too.
	[[ $packages != *postgresql-"$major"-* ]] || {
		cp -an "$("$PG_CONFIG" --pkglibdir)/." "$pkglibdir/"
		cp -an "$("$PG_CONFIG" --sharedir)/." "$work/root$("$PG_CONFIG" --sharedir)/"
	}
	get_jar "$(needs Maven)" >> "$out" 2>&1 || true
	[ -n "$pip" ] || return 0
	why="pip cannot install $pip: "
	{ [ -d "$venv" ] || supervised "$clients" python3 -m venv "$venv"; } >> "$out" 2>&1 &&
		supervised "$clients" "$venv/bin/pip" install --no-cache-dir $pip >> "$out" 2>&1 ||
		{ why+=$(grep -E 'Error|ERROR' "$out" | tail -n 1); return 1; }
}

# get_jar [GROUP:NAME:VERSION]
get_jar() {
	[ -n "$1" ] && command -v mvn || return 0
	supervised "$clients" mvn -q -B dependency:copy -Dmaven.repo.local="$clients/maven" \
		-Dartifact="$1" -DoutputDirectory="$clients/jars"
}

# client_server NAME start, client_server NAME stop
client_server() {
	local options=()
	why="the server does not $2"
	if [ "$2" = start ]; then
		client_port=$(free_port)
		options=(-l "$client_log/$1.server" -o "-p $client_port")
	fi
	supervised "$clients" "$bindir/pg_ctl" -D "$clients/pg" -w "${options[@]}" "$2" \
		>> "$client_log/$1.out" 2>&1
}

# client_psql DATABASE ARGUMENT...
client_psql() {
	supervised "$clients" "$bindir/psql" -XAtq -v ON_ERROR_STOP=1 -h "$clients" -p "$client_port" \
		-U postgres -d "$@"
}

# client_work NAME: all steps, and what must hold behind them; sets times, or why.
client_work() {
	local steps round database heap=() mtpower=() least
	steps=$(needs Steps)
	[[ $steps != *prepare* ]] || client_step "$1" prepare postgres || return 1
	for ((round = 1; round <= ${ROUNDS:-1}; round++)); do
		for database in heap mtpower; do
			client_database "$1" "$database" && client_step "$1" load "$database" || return 1
			declare -n of_database=$database
			of_database+=("$took")
		done
	done
	! [ -e "$dir/version" ] || read -r version < "$dir/version"
	times="heap $(median "${heap[@]}") s, mtpower $(median "${mtpower[@]}") s"
	client_verify "$1" || return 1
	client_compare "$1" || return 1
	least=$(needs Batched)
	why="only $entries entries were batched"
	[ "$entries" -ge "${least:-0}" ] || return 1
	[[ $steps == *after* ]] || return 0
	client_step "$1" after heap && client_step "$1" after mtpower && client_verify "$1"
}

# median MILLISECONDS...: in seconds
median() {
	say "$@" | sort -n | awk '{ ms[NR] = $1 } END { printf "%.1f", ms[int((NR + 1) / 2)] / 1000 }'
}

# client_database NAME DATABASE: makes it anew.
client_database() {
	local extension
	why="database $2"
	client_psql postgres -c "DROP DATABASE IF EXISTS $2" -c "CREATE DATABASE $2" \
		2>> "$client_log/$1.out" || return 1
	[ "$2" = heap ] || client_psql "$2" -c 'CREATE EXTENSION mtpower' || return 1
	for extension in $(needs Extensions); do
		client_psql "$2" -c "CREATE EXTENSION $extension" || return 1
	done
	client_psql "$2" -c "ALTER DATABASE $2 SET default_table_access_method = $2"
}

# client_step NAME STEP DATABASE: sets took to the milliseconds, or why.
client_step() {
	local run methods=(TREE=btree HASH=hash ZONE=brin) start=${EPOCHREALTIME/./}
	case $client in
		*.sh) run=(bash -euo pipefail) ;;
		*.py) run=("$venv/bin/python" -P) ;;
		*.java) run=(java -cp "$clients/jars/*:/usr/share/java/postgresql.jar") ;;
	esac
	[ "$3" != mtpower ] || methods=(TREE=mtpower_blink HASH=mtpower_hash ZONE=mtpower_zone)
	why="$2 on $3"
	say "-- $why" >> "$client_log/$1.out"
	supervised "$dir" PATH="$bindir:$venv/bin:$PATH" PGHOST="$clients" PGPORT="$client_port" \
		PGUSER=postgres PGPASSWORD="$client_password" PGDATABASE="$3" "${methods[@]}" \
		SERVER_LOG="$client_log/$1.server" "${run[@]}" "$client" "$2" \
		>> "$client_log/$1.out" 2>&1 || return 1
	took=$(((${EPOCHREALTIME/./} - start) / 1000))
}

# client_verify NAME: adds to times what was verified, and sets entries, or why.
client_verify() {
	local out=$client_log/$1.verified tables indexes
	why="what it left in mtpower"
	client_psql mtpower -f "$source/test/clients/verify.sql" > "$out" 2>> "$client_log/$1.out" ||
		return 1
	if grep -v '^verified: ' "$out" >> "$client_log/$1.out"; then return 1; fi
	read -r tables indexes entries < <(sed -n 's/^verified: //p' "$out")
	times="${times%%;*}; $tables tables, $indexes indexes, $entries entries batched"
}

# client_compare NAME: do both databases have the same definitions and rows?
client_compare() {
	local database
	for database in heap mtpower; do
		why="the contents of $database"
		client_psql "$database" -f "$source/test/clients/contents.sql" \
			> "$client_log/$1.$database" 2>> "$client_log/$1.out" || return 1
	done
	why="mtpower's contents are not heap's"
	grep -q '|rows|' "$client_log/$1.heap" &&
		diff "$client_log/$1.heap" "$client_log/$1.mtpower" >> "$client_log/$1.out"
}

# client_crashed NAME: has its server, in whichever process?  Sets why if it has.
client_crashed() {
	local lines
	lines=$(grep -m 3 -E 'PANIC:|TRAP:|was terminated by signal' "$client_log/$1.server") || return 1
	why=$lines
}
