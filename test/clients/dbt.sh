# test/clients/dbt.sh: dbt seeds a table, makes a model of it, an incremental one that appends, and
# one that merges by delete and insert; then all once more after the seed has changed.
#
# Python: dbt-core~=1.10.0 dbt-postgres~=1.9.0
# Steps: prepare load
# Batched: 50000

# seed FIRST LAST: a CSV file with these rows
seed() {
	awk -v first="$1" -v last="$2" 'BEGIN {
		print "id,device,kind,value,at"
		for (i = first; i <= last; i++)
			printf "%d,%d,kind %d,%.2f,2024-01-%02d 00:00:00\n",
				i, i * 7919 % 1009, i % 37, i / 8, i % 28 + 1
	}'
}

make_project() {
	mkdir seeds models
	seed 1 400 > first.csv
	seed 201 800 > second.csv
	cat > dbt_project.yml <<-'END'
		name: readings
		profile: readings
		flags: { send_anonymous_usage_stats: false, use_colors: false }
		seeds:
		  +full_refresh: true
		  +indexes: [{ columns: [device, at], type: "{{ env_var('TREE') }}" }]
	END
	cat > profiles.yml <<-'END'
		readings:
		  target: test
		  outputs:
		    test: { type: postgres, host: "{{ env_var('PGHOST') }}",
		      port: "{{ env_var('PGPORT') | int }}", user: "{{ env_var('PGUSER') }}", password: "",
		      dbname: "{{ env_var('PGDATABASE') }}", schema: marts, threads: 2 }
	END
	make_models
}

make_models() {
	local indexes="indexes=[{'columns': ['id'], 'type': env_var('TREE')},
		{'columns': ['device'], 'type': env_var('HASH')},
		{'columns': ['kind', 'value'], 'type': env_var('TREE')}]"
	local rows="SELECT id * 100 + n AS id, device, kind, value * n AS value, at
		FROM {{ ref('feed') }}, generate_series(1, 50) n"
	cat > models/devices.sql <<-END
		{{ config(materialized='table', $indexes) }} $rows
	END
	cat > models/appended.sql <<-END
		{{ config(materialized='incremental', $indexes) }} $rows
		{% if is_incremental() %} WHERE id * 100 > (SELECT max(id) FROM {{ this }}) {% endif %}
	END
	cat > models/merged.sql <<-END
		{{ config(materialized='incremental', unique_key='id', $indexes) }} $rows
	END
	cat > models/schema.yml <<-'END'
		models:
		  - { name: merged, columns: [{ name: id, data_tests: [unique, not_null] }] }
	END
}

case $1 in
	prepare)
		pip show dbt-core 2> /dev/null | sed -n 's/^Version: //p' > version
		make_project ;;
	load)
		cp first.csv seeds/feed.csv
		dbt --quiet build
		cp second.csv seeds/feed.csv
		dbt --quiet build ;;
esac
