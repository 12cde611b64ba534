# test/clients/osm2pgsql.sh: osm2pgsql with PostGIS imports a map that is made here by a style of
# its own (flex output), and then brings it up to date with a file of changes.  It uses COPY alone.
#
# Packages: osm2pgsql postgresql-MAJOR-postgis-3 gawk
# Extensions: postgis
# Steps: prepare load
# Batched: 80000

# make_map: 60,000 nodes on a grid, 6,000 ways of 4 to 13 nodes each (a third are closed), and 600
# relations, half of them multipolygons of closed ways, half of them routes.
make_map() {
	gawk 'BEGIN {
		print "<osm version=\"0.6\">"
		for (i = 1; i <= 60000; i++) node(i, 1, i % 5 == 0)
		for (i = 1; i <= 6000; i++) way(i, 1)
		for (i = 1; i <= 600; i++) relation(i)
		print "</osm>"
	}'"$elements"
}

# make_changes: moved and new nodes, other ways through them, and ways and nodes that go, by number.
make_changes() {
	gawk 'BEGIN {
		print "<osmChange version=\"0.6\">"
		for (i = 1; i <= 60000; i++)
			if (i % 200 == 10) gone("node", i)
			else if (i % 20 == 7) { print "<modify>"; node(i, 2, i % 2); print "</modify>" }
		print "<create>"
		for (i = 60001; i <= 63000; i++) node(i, 1, 1)
		print "</create>"
		for (i = 1; i <= 6000; i++)
			if (i % 50 == 4) gone("way", i)
			else if (i % 5 == 2) { print "<modify>"; way(i, 2); print "</modify>" }
		print "</osmChange>"
	}'"$elements"
}

elements='
	function tag(k, v) { return "<tag k=\"" k "\" v=\"" v "\"/>" }
	function node(i, version, tagged) {
		printf "<node id=\"%d\" version=\"%d\" lat=\"%.6f\" lon=\"%.6f\">%s</node>\n", i, version,
			50 + (i * 7919 % 60013) / 60000 + version / 9000, 10 + (i * 104729 % 60013) / 60000,
			tagged ? tag("amenity", "kind " i % 17) tag("name", "place " i) : ""
	}
	function way(i, version,   n, k) {
		n = 4 + i % 10
		printf "<way id=\"%d\" version=\"%d\">", i, version
		for (k = 0; k < n; k++) printf "<nd ref=\"%d\"/>", i * 9 + k * version + 1
		if (i % 3 == 0) printf "<nd ref=\"%d\"/>", i * 9 + 1
		print (i % 3 == 0 ? tag("building", "yes") : tag("highway", "class " i % 6)) "</way>"
	}
	function gone(element, i) {
		printf "<delete><%s id=\"%d\" version=\"2\"/></delete>\n", element, i
	}
	function relation(i,   k) {
		printf "<relation id=\"%d\" version=\"1\">", i
		for (k = 0; k < 5; k++)
			printf "<member type=\"way\" ref=\"%d\" role=\"%s\"/>", i * 9 - k * 3 + (i % 2),
				i % 2 ? "" : "outer"
		print (i % 2 ? tag("type", "route") : tag("type", "multipolygon") tag("landuse", "x")) \
			"</relation>"
	}'

# The style asks for the access methods of indexes by name.
make_style() {
	cat <<-'END'
		local tree, hash = os.getenv('TREE'), os.getenv('HASH')
		local places = osm2pgsql.define_node_table('places', {
			{ column = 'name', type = 'text' }, { column = 'amenity', type = 'text' },
			{ column = 'tags', type = 'jsonb' }, { column = 'geom', type = 'point' },
		}, { indexes = {
			{ column = 'geom', method = 'gist' }, { column = 'name', method = tree },
			{ column = 'amenity', method = hash } } })
		local roads = osm2pgsql.define_way_table('roads', {
			{ column = 'highway', type = 'text' }, { column = 'nodes', type = 'integer' },
			{ column = 'geom', type = 'linestring' },
		}, { indexes = {
			{ column = 'geom', method = 'gist' }, { column = { 'highway', 'nodes' }, method = tree } } })
		local areas = osm2pgsql.define_area_table('areas', {
			{ column = 'kind', type = 'text' }, { column = 'geom', type = 'geometry' } })
		local routes = osm2pgsql.define_relation_table('routes', {
			{ column = 'members', type = 'jsonb' }, { column = 'geom', type = 'multilinestring' } })

		function osm2pgsql.process_node(object)
			places:insert({ name = object.tags.name, amenity = object.tags.amenity,
				tags = object.tags, geom = object:as_point() })
		end
		function osm2pgsql.process_way(object)
			if object.tags.building then
				areas:insert({ kind = 'building', geom = object:as_polygon() })
			else
				roads:insert({ highway = object.tags.highway, nodes = #object.nodes,
					geom = object:as_linestring() })
			end
		end
		function osm2pgsql.process_relation(object)
			if object.tags.type == 'multipolygon' then
				areas:insert({ kind = object.tags.landuse, geom = object:as_multipolygon() })
			else
				routes:insert({ members = object.members, geom = object:as_multilinestring() })
			end
		end
	END
}

import() { osm2pgsql --slim --output=flex --style=style.lua --cache=64 "$@"; }

case $1 in
	prepare)
		osm2pgsql --version 2>&1 | sed -n 's/.*osm2pgsql version //p' > version
		make_map > map.osm
		make_changes > changes.osc
		make_style > style.lua ;;
	load)
		import --create map.osm
		import --append changes.osc ;;
esac
