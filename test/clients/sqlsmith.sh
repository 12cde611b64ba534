# test/clients/sqlsmith.sh: SQLsmith asks random queries, as a superuser, of tables and indexes of
# all kinds, with random arguments for all functions, mtpower's too.  No process may crash, all
# indexes verify afterwards, and no error may be an internal one (XX000) that mtpower raises, or
# that a query of our tables gives once more, and gives not on heap.
#
# SQLSMITH_SECONDS (600) is how long.
#
# Packages: sqlsmith
# Steps: load after
# Batched: 10000

tables() {
	cat <<-END
		CREATE TABLE events (id int PRIMARY KEY, at timestamptz, device int, kind text,
			payload jsonb);
		CREATE INDEX ON events USING $TREE (at);
		CREATE INDEX ON events USING $TREE (device, at DESC);
		CREATE INDEX ON events USING $TREE (kind) INCLUDE (device) WHERE kind IS NOT NULL;
		CREATE INDEX ON events USING $TREE (lower(kind));
		CREATE INDEX ON events USING $HASH (device);
		CREATE INDEX ON events USING $ZONE (id, at);
		CREATE INDEX ON events USING gin (payload);
		CREATE INDEX ON events (device);
		CREATE TABLE places (id bigint PRIMARY KEY, name text UNIQUE, spot point, size numeric,
			during tstzrange, event int REFERENCES events);
		CREATE INDEX ON places USING $HASH (name);
		CREATE INDEX ON places USING $TREE (size, name);
		CREATE INDEX ON places USING gist (during);
		CREATE TABLE parts (id int, day date, value float8) PARTITION BY RANGE (day);
		CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
		CREATE TABLE parts_2 PARTITION OF parts DEFAULT;
		CREATE INDEX ON parts USING $TREE (value);
		CREATE INDEX ON parts USING $HASH (id);
		CREATE INDEX ON parts USING $ZONE (day);
		CREATE VIEW joined AS SELECT e.*, p.name, p.size
			FROM events e JOIN places p ON p.event = e.id;
		INSERT INTO events SELECT i, '2024-01-01 UTC'::timestamptz + i * interval '1 min', i % 97,
			nullif('kind ' || i % 13, 'kind 5'), jsonb_build_object('a', i % 7)
			FROM generate_series(1, 20000) i;
		INSERT INTO places SELECT i, 'place ' || i, point(i, -i), i / 7.0,
			tstzrange('2024-01-01 UTC', '2024-01-01 UTC'::timestamptz + i * interval '1 h'), i
			FROM generate_series(1, 2000) i;
		INSERT INTO parts SELECT i, '2024-01-01'::date + i % 60, i / 3.0
			FROM generate_series(1, 5000) i;
		VACUUM ANALYZE;
	END
}

# ask OUT OPTION...: queries until the time is over; each is a transaction that is rolled back.
ask() {
	local out=$1 status=0
	shift
	timeout "${SQLSMITH_SECONDS:-600}" sqlsmith --seed="${SEED:-1}" --verbose "$@" \
		--target="host=$PGHOST port=$PGPORT user=$PGUSER dbname=$PGDATABASE" > "$out" 2>&1 || status=$?
	[ "$status" = 124 ] || { tail -n 20 "$out"; return 1; }
}

# internal_errors: prints each of the server's, with the function that raised it, and leaves their
# statements in files internal.N.
internal_errors() {
	awk '/ (ERROR|FATAL): / { message = ""; due = 0 }
		/ XX000 (ERROR|FATAL): / { message = $0; sub(/.* XX000: */, "", message) }
		/ LOCATION: / && message != "" {
			sub(/.* LOCATION: */, ""); sub(/,.*/, ""); print $0 ": " message
			message = ""; due = 1 }
		/ STATEMENT: / && due {
			sub(/.* STATEMENT: */, ""); file = "internal." ++n; due = 0; print > file; next }
		/^\t/ && file != "" { print > file; next }
		{ file = "" }' "$SERVER_LOG"
}

# fails_so DATABASE FILE: does this statement end with an internal error there?
fails_so() {
	{ echo "BEGIN; SET LOCAL statement_timeout = '10s';"; cat "$2"; echo '; ROLLBACK'; } |
		psql -Xq -d "$1" -v VERBOSITY=sqlstate 2>&1 | grep -q XX000
}

# of_ours FILE: does the statement read our tables alone?  Catalogs differ between databases.
of_ours() {
	! tr '\n\t' '  ' < "$1" |
		grep -qE '(from|join|into|update) +(pg_catalog|information_schema|mtpower)\.'
}

judge() {
	local file bad=0
	internal_errors > errors
	sed 's/[0-9][0-9]*/N/g' errors | sort | uniq -c | sort -rn
	if grep '^mtp_' errors; then bad=1; fi
	for file in internal.*; do
		if [ -e "$file" ] && of_ours "$file" && fails_so mtpower "$file" && ! fails_so heap "$file"; then
			cat "$file"
			bad=1
		fi
	done
	return "$bad"
}

case $1 in
	load)
		tables | psql -Xq -v ON_ERROR_STOP=1 ;;
	after)
		psql -Xq -c 'CREATE EXTENSION IF NOT EXISTS mtpower'
		[ "$PGDATABASE" = mtpower ] || exit 0
		ask all & other=$! early=
		ask ours --exclude-catalog || early=1
		wait "$other" || early=1
		[ -z "$early" ]
		grep -hE '^queries:' all ours || true
		judge ;;
esac
