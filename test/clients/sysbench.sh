# test/clients/sysbench.sh: sysbench's OLTP tables; then reads and writes at random by four
# sessions, after which indexes must agree with their tables.
#
# Packages: sysbench
# Steps: prepare load after
# Batched: 80000

# Its own preparation with values that are the same each time: --rand-seed does not reach it.
make_values() {
	cat <<-'END'
		require("oltp_common")
		math.randomseed(77)
		sb_rand = math.random
		function sysbench.rand.string(template)
			return (template:gsub("#", function() return math.random(0, 9) end))
		end
	END
}

# oltp SCRIPT ARGUMENT...
oltp() {
	sysbench "$1" --db-driver=pgsql --pgsql-host="$PGHOST" --pgsql-port="$PGPORT" \
		--pgsql-user="$PGUSER" --pgsql-db="$PGDATABASE" --tables=3 --table-size=30000 \
		--create_secondary=off "${@:2}"
}

case $1 in
	prepare)
		sysbench --version | sed 's/^sysbench //' > version
		make_values > values.lua ;;
	load)
		oltp values.lua prepare
		for i in 1 2 3; do
			psql -Xq -c "CREATE INDEX ON sbtest$i USING $TREE (k)" \
				-c "CREATE INDEX ON sbtest$i USING $HASH (c)"
		done ;;
	after)
		oltp oltp_read_write --threads=4 --time=20 --rand-type=uniform run | tee run
		[ "$(awk '$1 == "transactions:" { print $2 }' run)" -gt 100 ] ;;
esac
