-- The queries of t/index/flights.pl: a block each, of a name, the plan to expect (a Perl regular expression), settings, and
-- FETCH commands for those that are read through a cursor.  Rows with equal sort keys may come in any order (nbtree's posting
-- lists come forwards in a backward scan): such queries show sort keys only.

-- name: index scan, equal text
-- plan: Index Scan using f_tail
-- set: enable_bitmapscan = off
SELECT time_hour, carrier, flight FROM flights WHERE tailnum = 'N725MQ' ORDER BY 1, 2, 3;

-- name: index scan, a range of timestamps
-- plan: Index Scan using f_time
-- set: enable_bitmapscan = off
SELECT time_hour, carrier, flight, dest FROM flights
WHERE time_hour > '2013-12-24 14:00+00' AND time_hour <= '2013-12-24 16:00+00' ORDER BY 1, 2, 3, 4;

-- name: index scan, both bounds exclusive and nothing between
-- plan: Index (Only )?Scan using f_distance
-- set: enable_bitmapscan = off
SELECT count(*), sum(distance) FROM flights WHERE distance > 4963 AND distance < 4983;

-- name: index scan, contradictory bounds
-- plan: Index (Only )?Scan using f_distance
-- set: enable_bitmapscan = off
SELECT count(*) FROM flights WHERE distance > 3000 AND distance < 1000;

-- name: index-only scan
-- plan: Index Only Scan using f_time
SELECT count(*), min(time_hour), max(time_hour) FROM flights WHERE time_hour >= '2013-06-01' AND time_hour < '2013-06-08';

-- name: index-only scan over the whole index
-- plan: Index Only Scan using f_flight
-- set: enable_bitmapscan = off
SELECT carrier, count(*), count(DISTINCT flight) FROM flights GROUP BY carrier ORDER BY carrier;

-- name: index-only scan with included columns
-- plan: Index Only Scan using f_dest_incl
SELECT carrier, count(*), sum(arr_delay), count(arr_delay) FROM flights WHERE dest = 'ATL' GROUP BY 1 ORDER BY 1;

-- name: bitmap scan
-- plan: Bitmap Index Scan on f_flight
-- set: enable_indexscan = off, enable_indexonlyscan = off
SELECT count(*), min(dep_time), max(arr_delay), sum(air_time) FROM flights WHERE carrier = 'UA' AND flight BETWEEN 200 AND 300;

-- name: bitmap scan, two indexes anded
-- plan: BitmapAnd[\s\S]*Bitmap Index Scan on f_(tail|dest_incl)|Bitmap Index Scan on f_route
-- set: enable_indexscan = off, enable_indexonlyscan = off
SELECT count(*), sum(dep_delay) FROM flights WHERE dest = 'BOS' AND time_hour BETWEEN '2013-03-01' AND '2013-04-01';

-- name: bitmap scan, two indexes ored
-- plan: BitmapOr[\s\S]*Bitmap Index Scan on f_tail
SELECT count(*), min(time_hour), max(time_hour), sum(distance) FROM flights WHERE tailnum = 'N14228' OR dep_delay > 600;

-- name: bitmap scan, lossy
-- plan: Bitmap Index Scan on f_distance
-- set: work_mem = '64kB', enable_seqscan = off, enable_indexscan = off, enable_indexonlyscan = off
SELECT count(*), sum(flight), sum(arr_delay) FROM flights WHERE distance < 1000;

-- name: ORDER BY ... LIMIT, forward
-- plan: Index Only Scan using f_dep_delay
SELECT dep_delay FROM flights ORDER BY dep_delay LIMIT 200;

-- name: ORDER BY ... LIMIT, backward, missing values first
-- plan: Index Only Scan Backward using f_dep_delay
SELECT dep_delay FROM flights ORDER BY dep_delay DESC OFFSET 8200 LIMIT 200;

-- name: ORDER BY ... LIMIT, descending index forward
-- plan: Index Scan using f_arr_delay
SELECT arr_delay, carrier, flight FROM flights ORDER BY arr_delay DESC NULLS LAST LIMIT 10;

-- name: ORDER BY ... LIMIT, descending index backward
-- plan: Index Only Scan Backward using f_arr_delay
SELECT arr_delay FROM flights ORDER BY arr_delay NULLS FIRST OFFSET 9400 LIMIT 100;

-- name: ORDER BY over three columns of mixed directions
-- plan: Index Only Scan using f_day
SELECT month, day, dep_time FROM flights WHERE month >= 7 ORDER BY month, day DESC, dep_time NULLS FIRST LIMIT 1500;

-- name: the same, backward
-- plan: Index Only Scan Backward using f_day
SELECT month, day, dep_time FROM flights WHERE month <= 7 ORDER BY month DESC, day, dep_time DESC NULLS LAST LIMIT 1500;

-- name: IS NULL
-- plan: Index Only Scan using f_dep_delay[\s\S]*Index Cond: \(dep_delay IS NULL\)
SELECT count(*) FROM flights WHERE dep_delay IS NULL;

-- name: IS NULL on a text column, rows fetched
-- plan: Index Cond: \(tailnum IS NULL\)
-- set: enable_seqscan = off
SELECT count(*), count(dep_time), min(carrier), max(time_hour) FROM flights WHERE tailnum IS NULL;

-- name: IS NULL in a later column
-- plan: Index Only Scan( Backward)? using f_day
-- set: enable_bitmapscan = off
SELECT day, count(*) FROM flights WHERE month = 2 AND dep_time IS NULL GROUP BY day ORDER BY day;

-- name: IS NOT NULL
-- plan: Index Only Scan using f_dep_delay[\s\S]*Index Cond: \(dep_delay IS NOT NULL\)
-- set: enable_seqscan = off, enable_bitmapscan = off
SELECT count(dep_delay), sum(dep_delay) FROM flights WHERE dep_delay IS NOT NULL;

-- name: IS NULL with NULLS FIRST, and the column behind it
-- plan: Index Only Scan using w_wind
-- set: enable_bitmapscan = off, enable_seqscan = off
SELECT wind_dir, wind_speed FROM weather WHERE wind_dir IS NULL ORDER BY wind_speed DESC NULLS FIRST LIMIT 30;

-- name: MIN and MAX
-- plan: (?=[\s\S]*Index Only Scan using f_dep_delay)[\s\S]*Index Only Scan Backward using f_dep_delay
SELECT min(dep_delay), max(dep_delay) FROM flights;

-- name: MIN and MAX behind a fixed column
-- plan: (?=[\s\S]*Index Only Scan using f_flight)[\s\S]*Index Only Scan Backward using f_flight
SELECT min(flight), max(flight) FROM flights WHERE carrier = 'B6';

-- name: = ANY (array)
-- plan: Index Only Scan using f_flight[\s\S]*Index Cond: .*ANY
-- set: enable_bitmapscan = off
SELECT carrier, count(*) FROM flights WHERE carrier = ANY ('{OO,HA,ZZ,F9,OO,NULL}') GROUP BY 1 ORDER BY 1;

-- name: = ANY (array) as a bitmap scan
-- plan: Bitmap Index Scan on f_tail
-- set: enable_indexscan = off
SELECT tailnum, count(*), sum(distance) FROM flights WHERE tailnum IN ('N0EGMQ', 'N10156', 'nobody', 'N999DN') GROUP BY 1 ORDER BY 1;

-- name: = ANY (array) on two columns
-- plan: Index Only Scan using f_route
-- set: enable_bitmapscan = off
SELECT origin, dest, count(*), max(time_hour) FROM flights
WHERE origin = ANY ('{LGA,JFK}') AND dest = ANY ('{MVY,ACK,HNL,BQN}') GROUP BY 1, 2 ORDER BY 1, 2;

-- name: < ANY (array)
-- plan: Index Only Scan using f_distance
-- set: enable_bitmapscan = off
SELECT count(*), max(distance) FROM flights WHERE distance < ANY ('{90,100,120}');

-- name: = ANY of an empty array
-- plan: Index Only Scan using f_flight
-- set: enable_bitmapscan = off
SELECT count(*) FROM flights WHERE carrier = ANY ('{}');

-- name: two columns fixed, a range of the third
-- plan: Index Only Scan Backward using f_route
-- set: enable_bitmapscan = off
SELECT time_hour FROM flights WHERE origin = 'EWR' AND dest = 'ORD' AND time_hour < '2013-01-03' ORDER BY time_hour DESC;

-- name: later columns alone
-- plan: Index Only Scan( Backward)? using f_day[\s\S]*Index Cond: .*dep_time
-- set: enable_seqscan = off, enable_bitmapscan = off
SELECT month, count(*), max(dep_time) FROM flights WHERE day = 29 AND dep_time < 100 GROUP BY 1 ORDER BY 1;

-- name: int4 column, int8 and int2 bounds
-- plan: Index Only Scan using f_distance
-- set: enable_bitmapscan = off
SELECT count(*), min(distance), max(distance) FROM flights WHERE distance > 2500::bigint AND distance <= 3000::smallint;

-- name: int4 column, an int8 bound outside its range
-- plan: Index Only Scan using f_distance
-- set: enable_bitmapscan = off
SELECT count(*) FROM flights WHERE distance >= 4294967296 + 500;

-- name: int2 column, int8 array
-- plan: Index Only Scan using p_year
-- set: enable_bitmapscan = off, enable_seqscan = off
SELECT year, count(*) FROM planes WHERE year = ANY ('{1956,1965,67492}'::bigint[]) GROUP BY 1 ORDER BY 1;

-- name: timestamptz column, date bounds
-- plan: Index Only Scan using (w_time|w_key)
-- set: enable_bitmapscan = off
SELECT count(*) FROM weather WHERE time_hour >= DATE '2013-12-24' AND time_hour < DATE '2013-12-27';

-- name: numeric column
-- plan: Index Only Scan( Backward)? using w_pressure
-- set: enable_bitmapscan = off
SELECT pressure FROM weather WHERE pressure < 990.5 ORDER BY pressure DESC;

-- name: float8 columns
-- plan: Index Only Scan using a_place
-- set: enable_bitmapscan = off, enable_seqscan = off
SELECT lat, lon FROM airports WHERE lat BETWEEN 40 AND 41 AND lon < -73.5 ORDER BY lat, lon;

-- name: text in the C collation, a range
-- plan: Index (Only )?Scan using a_name_c
-- set: enable_bitmapscan = off, enable_seqscan = off
SELECT name FROM airports WHERE name >= 'San' AND name < 'San Z' ORDER BY name;

-- name: text in the C collation, LIKE
-- plan: Index (Only )?Scan using a_name_c[\s\S]*Index Cond
-- set: enable_bitmapscan = off, enable_seqscan = off
SELECT name FROM airports WHERE name LIKE 'Port%' ORDER BY name;

-- name: text in an ICU collation, a range
-- plan: Index Scan using a_name_icu
-- set: enable_bitmapscan = off, enable_seqscan = off
SELECT name, faa FROM airports WHERE name COLLATE "en-x-icu" >= 'mc' AND name COLLATE "en-x-icu" < 'mD'
ORDER BY name COLLATE "en-x-icu", faa COLLATE "C";

-- name: text in an ICU collation, the whole order
-- plan: Index Only Scan Backward using a_name_icu
-- set: enable_seqscan = off, enable_sort = off
SELECT name FROM airports ORDER BY name COLLATE "en-x-icu" DESC;

-- name: text in an ICU collation, many equal keys
-- plan: Index Only Scan using f_dest_icu
-- set: enable_bitmapscan = off, enable_seqscan = off
SELECT dest, count(*) FROM flights WHERE dest COLLATE "en-x-icu" BETWEEN 'a' AND 'bz' GROUP BY dest ORDER BY dest;

-- name: partial index
-- plan: Index (Only )?Scan using f_late|Bitmap Index Scan on f_late
SELECT count(*), avg(arr_delay), max(carrier) FROM flights WHERE arr_delay > 120 AND air_time > 330;

-- name: expression, a date
-- plan: (Index Scan using|Bitmap Index Scan on) f_utc_date
SELECT carrier, count(*), sum(distance) FROM flights
WHERE (time_hour AT TIME ZONE 'UTC')::date = '2013-10-31' GROUP BY 1 ORDER BY 1;

-- name: expression, a function of text
-- plan: (Index Scan using|Bitmap Index Scan on) f_lower_dest
SELECT count(*), sum(arr_delay) FROM flights WHERE lower(dest) = 'psp';

-- name: merge join, equal keys on both sides (mark and restore)
-- plan: Merge Join[\s\S]*Index Only Scan using f_time[\s\S]*Index Only Scan using w_time|Merge Join[\s\S]*Index Only Scan using w_time[\s\S]*Index Only Scan using f_time
-- set: enable_hashjoin = off, enable_nestloop = off, enable_sort = off, enable_material = off, enable_seqscan = off, enable_bitmapscan = off
SELECT count(*), count(DISTINCT f.time_hour), max(f.time_hour) FROM flights f JOIN weather w ON w.time_hour = f.time_hour;

-- name: merge join on text
-- plan: Merge Join[\s\S]*Index (Only )?Scan using [fp]_tail[\s\S]*Index (Only )?Scan using [fp]_tail
-- set: enable_hashjoin = off, enable_nestloop = off, enable_sort = off, enable_seqscan = off, enable_bitmapscan = off
SELECT p.manufacturer, count(*), sum(f.distance) FROM flights f JOIN planes p USING (tailnum) GROUP BY 1 ORDER BY 2 DESC, 1;

-- name: full merge join
-- plan: Merge Full Join[\s\S]*Index Only Scan using [fp]_tail[\s\S]*Index Only Scan using [fp]_tail
-- set: enable_hashjoin = off, enable_nestloop = off, enable_sort = off, enable_seqscan = off, enable_bitmapscan = off
SELECT count(*), count(f.tailnum), count(p.tailnum) FROM flights f FULL JOIN planes p ON p.tailnum = f.tailnum;

-- name: nested loop, inner index scan
-- plan: Nested Loop[\s\S]*Index Scan using f_tail
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off, enable_memoize = off
SELECT p.model, count(*), round(avg(f.dep_delay), 2) FROM planes p JOIN flights f USING (tailnum)
WHERE p.manufacturer IN ('PIPER', 'CESSNA', 'BEECH') GROUP BY 1 ORDER BY 1;

-- name: nested loop over two columns
-- plan: Nested Loop[\s\S]*Index Only Scan using w_key[\s\S]*Index Cond: .*AND
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off, enable_memoize = off
SELECT w.origin, count(*), max(w.time_hour) FROM flights f JOIN weather w USING (origin, time_hour)
WHERE f.dest = 'SEA' AND f.carrier = 'DL' GROUP BY 1 ORDER BY 1;

-- name: lateral
-- plan: Limit[\s\S]*Index Scan using f_tail
-- set: enable_bitmapscan = off
SELECT p.tailnum, l.minute, l.time_hour FROM planes p,
	LATERAL (SELECT minute, time_hour FROM flights f WHERE f.tailnum = p.tailnum ORDER BY minute, time_hour LIMIT 1) l
WHERE p.year < 1970 ORDER BY 1;

-- name: semi join
-- plan: Index Only Scan using (f_dest_incl|f_route)
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_hashagg = off
SELECT faa FROM airports a WHERE alt > 5000 AND EXISTS (SELECT FROM flights f WHERE f.dest = a.faa) ORDER BY faa;

-- name: anti join
-- plan: Anti Join[\s\S]*Index Only Scan using a_faa
-- set: enable_hashjoin = off, enable_mergejoin = off
SELECT dest, count(*) FROM flights f WHERE NOT EXISTS (SELECT FROM airports a WHERE a.faa = f.dest) GROUP BY 1 ORDER BY 1;

-- name: DISTINCT from index order
-- plan: Index Only Scan using f_flight
-- set: enable_hashagg = off, enable_sort = off, enable_seqscan = off
SELECT count(*) FROM (SELECT DISTINCT carrier, flight FROM flights) d;

-- name: window over index order
-- plan: WindowAgg[\s\S]*Index Only Scan using f_route
-- set: enable_sort = off, enable_seqscan = off, enable_bitmapscan = off
SELECT max(gap), count(*) FROM (
	SELECT time_hour - lag(time_hour) OVER (PARTITION BY origin, dest ORDER BY time_hour) AS gap
	FROM flights WHERE origin = 'JFK') g;

-- name: incremental sort over index order
-- plan: Incremental Sort[\s\S]*Index (Only )?Scan using f_flight
SELECT carrier, flight, minute FROM flights ORDER BY carrier, flight, minute LIMIT 300;

-- name: ORDER BY ... FETCH FIRST WITH TIES
-- plan: Index Only Scan Backward using f_dep_delay
SELECT dep_delay FROM flights WHERE dep_delay < 300 ORDER BY dep_delay DESC FETCH FIRST 50 ROWS WITH TIES;

-- name: DISTINCT ON from index order
-- plan: Unique[\s\S]*Index Only Scan Backward using f_route
-- set: enable_hashagg = off, enable_sort = off, enable_seqscan = off, enable_bitmapscan = off
SELECT DISTINCT ON (origin, dest) origin, dest, time_hour FROM flights ORDER BY origin DESC, dest DESC, time_hour DESC;

-- name: the next key again and again
-- plan: Recursive Union[\s\S]*Index Only Scan using f_dest_incl
WITH RECURSIVE d AS (
	SELECT min(dest) AS dest FROM flights
	UNION ALL SELECT (SELECT min(f.dest) FROM flights f WHERE f.dest > d.dest) FROM d WHERE d.dest IS NOT NULL)
SELECT dest FROM d;

-- name: = ANY of an array that each row has its own of
-- plan: SubPlan[\s\S]*Index Only Scan using (f_dest_incl|f_route)[\s\S]*Index Cond: .*ANY
-- set: enable_bitmapscan = off
SELECT a.faa, (SELECT count(*) FROM flights f WHERE f.dest = ANY (ARRAY[a.faa, NULL, 'BZN', a.faa])) FROM airports a WHERE a.alt > 6500 ORDER BY 1;

-- name: array keys
-- plan: (Index Scan using|Bitmap Index Scan on) p_kind
-- set: enable_seqscan = off
SELECT tailnum, manufacturer, model FROM planes
WHERE ARRAY[manufacturer, model] >= '{BOEING,737-5}' AND ARRAY[manufacturer, model] < '{BOEING,737-7}' ORDER BY 1;

-- name: array keys in order, backward
-- plan: Index Scan Backward using p_kind
-- set: enable_seqscan = off, enable_sort = off
SELECT ARRAY[manufacturer, model] AS kind FROM planes ORDER BY 1 DESC LIMIT 400;

-- name: nested loop with memoize
-- plan: Memoize[\s\S]*Index (Only )?Scan using p_tail
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off
SELECT p.engines, count(*), max(p.year) FROM flights f JOIN planes p USING (tailnum) WHERE f.month = 5 AND f.day < 8 GROUP BY 1 ORDER BY 1;

-- name: merge append of two tables
-- plan: Merge Append[\s\S]*Index Only Scan using f_time[\s\S]*Index Only Scan using w_time
SELECT time_hour FROM (SELECT time_hour FROM flights UNION ALL SELECT time_hour FROM weather) u ORDER BY 1 LIMIT 700;

-- name: below a parallel scan
-- plan: Gather[\s\S]*Parallel Seq Scan on flights[\s\S]*Index (Only )?Scan using [pa]_(tail|faa)
-- set: max_parallel_workers_per_gather = 2, parallel_setup_cost = 0, parallel_tuple_cost = 0, min_parallel_table_scan_size = 0, enable_hashjoin = off, enable_mergejoin = off, enable_indexscan = on, enable_bitmapscan = off
SELECT count(*), sum(p.seats) FROM flights f JOIN planes p USING (tailnum) WHERE f.minute = 7;

-- name: rows locked
-- plan: LockRows[\s\S]*Index Scan using f_tail
-- set: enable_bitmapscan = off
SELECT time_hour, carrier, flight FROM flights WHERE tailnum = 'N521JB' ORDER BY 1, 2, 3 FOR UPDATE;

-- name: scrolling cursor over an index scan
-- plan: Index Scan using f_flight
-- cursor: FORWARD 5; BACKWARD 3; FORWARD 700; BACKWARD 650; PRIOR; NEXT; RELATIVE 20; FORWARD ALL; PRIOR; BACKWARD ALL; NEXT; ABSOLUTE 42; LAST; FIRST
-- set: enable_bitmapscan = off, enable_seqscan = off, enable_sort = off
SELECT carrier, flight, distance > 0 FROM flights WHERE carrier = 'US' AND flight >= 2000 ORDER BY carrier, flight;

-- name: scrolling cursor over a backward index-only scan
-- plan: Index Only Scan Backward using f_time
-- cursor: LAST; PRIOR; BACKWARD 500; FORWARD 100; FIRST; FORWARD 4000; BACKWARD 3999; ABSOLUTE -7; RELATIVE -30; FORWARD ALL; BACKWARD ALL
-- set: enable_seqscan = off, enable_bitmapscan = off
SELECT time_hour FROM flights WHERE time_hour < '2013-01-20' ORDER BY time_hour DESC;

-- name: scrolling cursor over = ANY (array)
-- plan: Index (Only )?Scan using f_flight
-- cursor: FORWARD 100; BACKWARD 50; FORWARD 2000; BACKWARD 1500; FORWARD ALL; BACKWARD 10; BACKWARD ALL; FORWARD 3
-- set: enable_seqscan = off, enable_bitmapscan = off
SELECT carrier, flight FROM flights WHERE carrier = ANY ('{HA,OO,YV,F9}');
