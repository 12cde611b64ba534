# test/clients/wal2json.sh: logical decoding by wal2json of COPYs, UPDATEs, DELETEs and
# subtransactions that are rolled back; what it says is left in a table, and so compared.
#
# From 15.19 on, and in the releases of that time, a server makes slots only of those output plugins
# that output_plugin_libraries names.
#
# Packages: postgresql-MAJOR-wal2json
# Steps: prepare load
# Batched: 100000

sql() { psql -Xq -v ON_ERROR_STOP=1 "$@"; }

# Lets a session make a slot of this plugin, and read it.
allow="SELECT set_config(name, setting || ', wal2json', false) FROM pg_settings
	WHERE name = 'output_plugin_libraries'"

make_rows() {
	awk 'BEGIN { for (i = 1; i <= 20000; i++) printf "%d\t%d\tkind %d\n", i, i * 7919 % 1009, i % 37 }'
}

change() {
	sql <<-END
		CREATE TABLE events (id int PRIMARY KEY, device int, kind text);
		CREATE INDEX ON events USING $TREE (device, kind);
		CREATE INDEX ON events USING $HASH (kind);
		CREATE TABLE full_rows (id int, device int, kind text);
		ALTER TABLE full_rows REPLICA IDENTITY FULL;
		CREATE INDEX ON full_rows USING $TREE (device);
		CREATE INDEX ON full_rows USING $TREE (id);
		\copy events FROM rows
		BEGIN;
		\copy full_rows FROM rows
		SAVEPOINT s;
		DELETE FROM events;
		\copy events FROM rows
		ROLLBACK TO s;
		UPDATE full_rows SET device = -device WHERE id % 3 = 0;
		COMMIT;
		UPDATE events SET kind = 'changed' WHERE device < 200;
		UPDATE events SET id = -id WHERE device > 900;
		INSERT INTO events SELECT i, i, 'more' FROM generate_series(100001, 105000) i
		ON CONFLICT (id) DO UPDATE SET kind = 'conflict';
		DELETE FROM events WHERE id BETWEEN 1000 AND 2000;
		TRUNCATE full_rows;
	END
}

case $1 in
	prepare)
		dpkg-query -W -f '${Version}\n' 'postgresql-*-wal2json' | head -n 1 > version
		make_rows > rows ;;
	load)
		sql -c "$allow" -c "SELECT pg_create_logical_replication_slot('$PGDATABASE', 'wal2json')"
		change
		sql -c "$allow" -c "CREATE TABLE changes AS
			SELECT row_number() OVER () AS number, data
			FROM pg_logical_slot_get_changes('$PGDATABASE', NULL, NULL, 'format-version', '2')" \
			-c "SELECT pg_drop_replication_slot('$PGDATABASE')"
		[ "$(psql -XAtc 'SELECT count(*) > 50000 FROM changes')" = t ] ;;
esac
