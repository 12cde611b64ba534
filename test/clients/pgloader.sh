# test/clients/pgloader.sh: pgloader loads a CSV file, of which some rows are bad and are rejected,
# and a database of SQLite with its indexes and foreign keys.
#
# Packages: pgloader sqlite3
# Steps: prepare load
# Batched: 200000

make_csv() {
	awk 'BEGIN {
		for (i = 1; i <= 100000; i++)
			printf "%s,%d,\"kind %d\",2024-01-%02d\n", i % 9999 ? i : "x" i,
				i * 7919 % 100003, i % 37, i % 28 + 1
	}'
}

make_sqlite() {
	sqlite3 "$1" <<-'END'
		CREATE TABLE place (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
		CREATE TABLE reading (id INTEGER PRIMARY KEY, place_id INTEGER REFERENCES place (id),
			device INTEGER, value REAL, note TEXT);
		CREATE INDEX reading_place ON reading (place_id);
		CREATE INDEX reading_device ON reading (device, value);
		WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < 500)
		INSERT INTO place SELECT i, 'place ' || i FROM i;
		WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < 60000)
		INSERT INTO reading SELECT i, i % 500 + 1, i * 31 % 997, i / 8.0, 'note ' || i % 11 FROM i;
	END
}

# pgloader takes a Unix socket's directory in this form alone.
target="postgresql://$PGUSER@unix:$PGHOST:$PGPORT/$PGDATABASE"

load_csv() {
	psql -Xq -v ON_ERROR_STOP=1 <<-END
		CREATE TABLE feed (id int PRIMARY KEY, number int, kind text, day date);
		CREATE INDEX ON feed USING $TREE (number);
		CREATE INDEX ON feed USING $TREE (kind, day);
		CREATE INDEX ON feed USING $HASH (number);
		CREATE INDEX ON feed USING $ZONE (id);
	END
	cat > csv.load <<-END
		LOAD CSV FROM '$PWD/feed.csv' (id, number, kind, day)
		INTO $target TARGET TABLE feed (id, number, kind, day)
		WITH fields terminated by ',', fields optionally enclosed by '"';
	END
	pgloader --root-dir "$PWD/root" csv.load
}

load_sqlite() {
	cat > sqlite.load <<-END
		LOAD DATABASE FROM sqlite://$PWD/place.db INTO $target
		WITH include drop, create tables, create indexes, reset sequences, foreign keys,
			preserve index names;
	END
	pgloader --root-dir "$PWD/root" sqlite.load
}

case $1 in
	prepare)
		pgloader --version | sed -n 's/^pgloader version "\(.*\)"/\1/p' > version
		make_csv > feed.csv
		make_sqlite place.db ;;
	load)
		load_csv
		load_sqlite
		[ "$(psql -XAtc 'SELECT count(*) FROM feed')" = 99990 ]
		[ "$(psql -XAtc 'SELECT count(*) FROM reading')" = 60000 ] ;;
esac
