-- The queries of t/index/flights.pl, in the form of queries.sql.  The plan is that of mtpower_hash; answers are compared with those of
-- core's hash (of several columns: btree) and of sequential scans.

-- name: text
-- plan: Index Scan using f_tail
-- set: enable_bitmapscan = off
SELECT time_hour, carrier, flight FROM flights WHERE tailnum = 'N725MQ' ORDER BY 1, 2, 3;

-- name: text, a bitmap scan
-- plan: Bitmap Index Scan on f_tail
-- set: enable_indexscan = off
SELECT count(*), sum(distance), min(time_hour) FROM flights WHERE tailnum = 'N725MQ';

-- name: a key that is not there
-- plan: Index Scan using f_tail
-- set: enable_bitmapscan = off
SELECT count(*) FROM flights WHERE tailnum = 'N725MR';

-- name: keys that differ by case, and by trailing blanks
-- plan: Bitmap Index Scan on f_tail
-- set: enable_indexscan = off
SELECT tailnum, count(*) FROM flights WHERE tailnum IN ('n725mq', 'N725MQ ', ' N725MQ', '', 'N725MQ') GROUP BY 1 ORDER BY 1;

-- name: a timestamp
-- plan: Index Scan using f_time
-- set: enable_bitmapscan = off
SELECT carrier, flight, dest FROM flights WHERE time_hour = '2013-12-24 14:00+00' ORDER BY 1, 2, 3;

-- name: a timestamp of another type
-- plan: Seq Scan|Index Scan using f_time|Bitmap Index Scan on f_time
SELECT count(*) FROM flights WHERE time_hour = '2013-12-24 14:00'::timestamp;

-- name: a key in a tenth of the rows
-- plan: Index Scan using f_dest
-- set: enable_bitmapscan = off, enable_seqscan = off
SELECT carrier, count(*), sum(arr_delay), count(arr_delay) FROM flights WHERE dest = 'ORD' GROUP BY 1 ORDER BY 1;

-- name: a rare key among frequent ones
-- plan: Index Scan using f_dest
-- set: enable_bitmapscan = off, enable_seqscan = off
SELECT count(*), min(time_hour), max(time_hour) FROM flights WHERE dest = 'LEX';

-- name: each key's rows, counted by scans
-- plan: Nested Loop Left Join[\s\S]*Index Scan using f_dest
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off, enable_memoize = off, enable_material = off
SELECT a.faa, count(f.flight), sum(f.flight) FROM airports a LEFT JOIN flights f ON f.dest = a.faa WHERE a.tz = -5 GROUP BY 1 ORDER BY 1;

-- name: each plane's flights, counted by scans
-- plan: Nested Loop Left Join[\s\S]*Index Scan using f_tail
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off, enable_memoize = off, enable_material = off
SELECT p.tailnum, count(f.flight), sum(f.distance) FROM planes p LEFT JOIN flights f ON f.tailnum = p.tailnum GROUP BY 1 ORDER BY 1;

-- name: each plane's name as the updates wrote it
-- plan: Nested Loop Left Join[\s\S]*Index Scan using f_tail
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off, enable_memoize = off, enable_material = off
SELECT p.tailnum, count(f.flight), sum(f.arr_delay) FROM planes p LEFT JOIN flights f ON f.tailnum = lower(p.tailnum) GROUP BY 1 ORDER BY 1;

-- name: two columns
-- plan: Index Scan using f_flight[\s\S]*Index Cond: .*carrier.*flight
-- set: enable_bitmapscan = off
SELECT time_hour, origin, dest, tailnum FROM flights WHERE carrier = 'UA' AND flight = 1545 ORDER BY 1, 2, 3, 4;

-- name: two columns, the second of another type
-- plan: Index Scan using f_flight[\s\S]*Index Cond: .*carrier.*flight
-- set: enable_bitmapscan = off
SELECT count(*), sum(distance) FROM flights WHERE carrier = 'B6' AND flight = 725::bigint;

-- name: two columns, the second beyond its type
-- plan: Index Scan using f_flight
-- set: enable_bitmapscan = off
SELECT count(*) FROM flights WHERE carrier = 'B6' AND flight = 4294968021::bigint;

-- name: two columns, IN lists on both
-- plan: (Bitmap Index Scan on|Index Scan using) f_flight
-- set: enable_seqscan = off
SELECT carrier, flight, count(*), max(time_hour) FROM flights
WHERE carrier IN ('UA', 'B6', 'ZZ', NULL) AND flight IN (1, 15, 725, 1545, -1) GROUP BY 1, 2 ORDER BY 1, 2;

-- name: two columns swapped
-- plan: Index Scan using f_flight
-- set: enable_bitmapscan = off
SELECT count(*) FROM flights WHERE flight = 11 AND 'AA' = carrier;

-- name: one of two columns: no use for the index
-- plan: Seq Scan on flights
SELECT count(*), sum(flight) FROM flights WHERE carrier = 'HA';

-- name: one of two columns, with every other way disabled and dearer: a walk through the index
-- plan: (Index Scan using|Bitmap Index Scan on) f_flight
-- set: enable_seqscan = off, cpu_tuple_cost = 1e9
SELECT count(*), sum(flight) FROM flights WHERE carrier = 'HA';

-- name: three columns
-- plan: Index Scan using f_route[\s\S]*Index Cond: .*origin.*dest.*time_hour
-- set: enable_bitmapscan = off
SELECT carrier, flight, tailnum FROM flights WHERE origin = 'JFK' AND dest = 'LAX' AND time_hour = '2013-07-04 20:00+00' ORDER BY 1, 2, 3;

-- name: three columns, a miss in each
-- plan: f_route[\s\S]*f_(route|dest)[\s\S]*f_(route|dest|origin)
-- set: enable_bitmapscan = off
SELECT (SELECT count(*) FROM flights WHERE origin = 'JFK' AND dest = 'LAX' AND time_hour = '2014-07-04 20:00+00'),
	(SELECT count(*) FROM flights WHERE origin = 'JFK' AND dest = 'JFK' AND time_hour = '2013-07-04 20:00+00'),
	(SELECT count(*) FROM flights WHERE origin = 'LAX' AND dest = 'JFK' AND time_hour = '2013-07-04 20:00+00');

-- name: three columns, two of them given, and another index
-- plan: (Index Scan using|Bitmap Index Scan on) f_time
-- set: enable_seqscan = off
SELECT count(*), min(time_hour), max(time_hour) FROM flights WHERE origin = 'JFK' AND time_hour = '2013-07-04 20:00+00' AND dest > 'A' AND NOT time_hour IS NULL AND flight % 2 = 1;

-- name: three columns, the last of them NULL in some rows
-- plan: Index Scan using f_day
-- set: enable_bitmapscan = off
SELECT carrier, flight, dest FROM flights WHERE month = 2 AND day = 1 AND dep_time = 600 ORDER BY 1, 2, 3;

-- name: three columns, the last of them asked for as NULL
-- plan: Seq Scan|f_day
SELECT count(*), sum(flight) FROM flights WHERE month = 2 AND day = 8 AND dep_time IS NULL;

-- name: three columns, IN lists
-- plan: Bitmap Index Scan on f_day
-- set: enable_seqscan = off, enable_indexscan = off
SELECT month, day, count(*), sum(flight) FROM flights WHERE month IN (1, 6, 12) AND day = ANY (ARRAY[1, 13, 14, 15, 31]) AND dep_time IN (600, 601, 1200, 2500) GROUP BY 1, 2 ORDER BY 1, 2;

-- name: integers, negative ones too
-- plan: Index Scan using f_dep_delay|Bitmap Index Scan on f_dep_delay
-- set: enable_seqscan = off
SELECT (SELECT count(*) FROM flights WHERE dep_delay = -21), (SELECT count(*) FROM flights WHERE dep_delay = 1301), (SELECT count(*) FROM flights WHERE dep_delay = 0), (SELECT count(*) FROM flights WHERE dep_delay = 1300);

-- name: an IN list with what is not there, NULL and repetitions
-- plan: Bitmap Index Scan on f_tail
-- set: enable_indexscan = off
SELECT tailnum, count(*), sum(distance) FROM flights WHERE tailnum IN ('N0EGMQ', 'N10156', 'nobody', 'N999DN', NULL, 'N10156') GROUP BY 1 ORDER BY 1;

-- name: = ANY of an empty array
-- plan: Bitmap Index Scan on f_tail
-- set: enable_seqscan = off
SELECT count(*) FROM flights WHERE tailnum = ANY (ARRAY[]::text[]);

-- name: = ANY of a long array
-- plan: Bitmap Index Scan on f_tail
-- set: enable_seqscan = off
SELECT count(*), sum(distance), count(DISTINCT tailnum) FROM flights WHERE tailnum = ANY (ARRAY(SELECT tailnum FROM planes WHERE year = 2005));

-- name: two indexes anded
-- plan: BitmapAnd[\s\S]*Bitmap Index Scan on f_
-- set: enable_indexscan = off, enable_seqscan = off
SELECT count(*), sum(dep_delay) FROM flights WHERE dest = 'BOS' AND dep_delay = 3;

-- name: two indexes ored
-- plan: BitmapOr[\s\S]*Bitmap Index Scan on f_(tail|dep_delay)[\s\S]*Bitmap Index Scan on f_(tail|dep_delay)
SELECT count(*), min(time_hour), max(time_hour), sum(distance) FROM flights WHERE tailnum = 'N14228' OR dep_delay = 502;

-- name: a lossy bitmap
-- plan: Bitmap Index Scan on f_dest
-- set: work_mem = '64kB', enable_seqscan = off, enable_indexscan = off
SELECT count(*), sum(flight), sum(arr_delay) FROM flights WHERE dest IN ('ATL', 'BOS', 'SFO');

-- name: a partial index
-- plan: Index Scan using f_late|Bitmap Index Scan on f_late
-- set: enable_seqscan = off
SELECT count(*), avg(arr_delay), max(carrier) FROM flights WHERE arr_delay > 120 AND air_time = 150;

-- name: a partial index that does not apply
-- plan: Seq Scan on flights
SELECT count(*), avg(arr_delay), max(carrier) FROM flights WHERE arr_delay > 100 AND air_time = 150;

-- name: an expression, a date
-- plan: (Index Scan using|Bitmap Index Scan on) f_utc_date
SELECT carrier, count(*), sum(distance) FROM flights WHERE (time_hour AT TIME ZONE 'UTC')::date = '2013-10-31' GROUP BY 1 ORDER BY 1;

-- name: two columns, one an expression
-- plan: (Index Scan using|Bitmap Index Scan on) f_lower_dest
SELECT count(*), sum(arr_delay), min(tailnum) FROM flights WHERE lower(dest) = 'psp' AND day = 6;

-- name: one of two columns, an expression: a walk through the index
-- plan: (Index Scan using|Bitmap Index Scan on) f_lower_dest
-- set: enable_seqscan = off, cpu_tuple_cost = 1e9
SELECT count(*), sum(arr_delay), min(tailnum), max(tailnum) FROM flights WHERE lower(dest) = 'psp';

-- name: a long expression, nearly unique
-- plan: Index Scan using f_key
-- set: enable_bitmapscan = off
SELECT carrier, flight, dest FROM flights WHERE carrier || flight::text || '/' || origin || '/' || month::text || '-' || day::text = 'UA1545/EWR/1-1';

-- name: numerics of any scale
-- plan: (Index Scan using|Bitmap Index Scan on) w_pressure
-- set: enable_seqscan = off
SELECT origin, count(*), min(time_hour), max(time_hour) FROM weather WHERE pressure = 1013.500 GROUP BY 1 ORDER BY 1;

-- name: an integer that a numeric is equal to
-- plan: (Index Scan using|Bitmap Index Scan on) w_pressure
-- set: enable_seqscan = off
SELECT count(*), min(time_hour) FROM weather WHERE pressure = 1013;

-- name: floats and small integers
-- plan: (Index Scan using|Bitmap Index Scan on) w_wind
-- set: enable_seqscan = off
SELECT count(*), sum(w.temp::numeric) FROM weather w WHERE wind_dir = 0 AND wind_speed = 0;

-- name: arrays
-- plan: (Index Scan using|Bitmap Index Scan on) p_kind
-- set: enable_seqscan = off
SELECT tailnum, year FROM planes WHERE ARRAY[manufacturer, model] = '{BOEING,737-924}' ORDER BY 1;

-- name: an ICU collation
-- plan: (Index Scan using|Bitmap Index Scan on) a_name_icu
-- set: enable_seqscan = off
SELECT faa, name FROM airports WHERE name = 'Chicago Ohare Intl' COLLATE "en-x-icu";

-- name: a join over two floats
-- plan: Nested Loop[\s\S]*Index Scan using a_place[\s\S]*Index Cond: .*AND
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off, enable_memoize = off, enable_material = off
SELECT a.faa, count(*) FROM airports a JOIN airports b ON b.lat = a.lat AND b.lon = a.lon GROUP BY 1 ORDER BY 1;

-- name: a join, nested loop
-- plan: Nested Loop[\s\S]*Index Scan using f_tail
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off, enable_memoize = off
SELECT p.model, count(*), round(avg(f.dep_delay), 2) FROM planes p JOIN flights f USING (tailnum)
WHERE p.manufacturer IN ('PIPER', 'CESSNA', 'BEECH') GROUP BY 1 ORDER BY 1;

-- name: a join, each outer row's bitmap
-- plan: Nested Loop[\s\S]*Bitmap Index Scan on f_tail
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_indexscan = off, enable_memoize = off
SELECT p.model, count(*), sum(f.distance) FROM planes p JOIN flights f USING (tailnum) WHERE p.year = 1998 GROUP BY 1 ORDER BY 1;

-- name: a join over two columns
-- plan: Nested Loop[\s\S]*Index Scan using w_key[\s\S]*Index Cond: .*AND
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off, enable_memoize = off
SELECT w.origin, count(*), max(w.time_hour), sum(w.visib::numeric) FROM flights f JOIN weather w USING (origin, time_hour)
WHERE f.dest = 'SEA' AND f.carrier = 'DL' GROUP BY 1 ORDER BY 1;

-- name: a join over three columns, the table with itself
-- plan: Nested Loop[\s\S]*Index Scan using f_route[\s\S]*Index Cond: .*AND.*AND
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off, enable_memoize = off
SELECT count(*), count(DISTINCT g.flight), max(g.arr_delay) FROM flights f JOIN flights g USING (origin, dest, time_hour)
WHERE f.tailnum = 'N328AA' AND g.carrier <> f.carrier;

-- name: a left join with misses
-- plan: Nested Loop Left Join[\s\S]*Index Scan using [pf]_tail
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off, enable_memoize = off
SELECT count(*), count(p.tailnum), sum(p.seats) FROM flights f LEFT JOIN planes p ON p.tailnum = f.tailnum WHERE f.month = 11 AND f.day = 5 OR f.month = 1 AND f.day = 14;

-- name: a join that asks for the same keys again and again
-- plan: Nested Loop[\s\S]*Index Scan using p_tail
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off
SELECT p.engines, count(*), max(p.year) FROM flights f JOIN planes p USING (tailnum) WHERE f.month = 5 AND f.day < 8 GROUP BY 1 ORDER BY 1;

-- name: semi join
-- plan: Index Scan using f_dest
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_hashagg = off, enable_bitmapscan = off, enable_material = off
SELECT faa FROM airports a WHERE alt > 5000 AND EXISTS (SELECT FROM flights f WHERE f.dest = a.faa) ORDER BY faa;

-- name: anti join
-- plan: Anti Join[\s\S]*Index Scan using a_faa
-- set: enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off, enable_material = off
SELECT dest, count(*) FROM flights f WHERE NOT EXISTS (SELECT FROM airports a WHERE a.faa = f.dest) AND f.month = 4 GROUP BY 1 ORDER BY 1;

-- name: below a parallel scan
-- plan: Gather[\s\S]*Parallel Seq Scan on flights[\s\S]*Index Scan using [pa]_(tail|faa)
-- set: max_parallel_workers_per_gather = 2, parallel_setup_cost = 0, parallel_tuple_cost = 0, min_parallel_table_scan_size = 0, enable_hashjoin = off, enable_mergejoin = off, enable_bitmapscan = off
SELECT count(*), sum(p.seats) FROM flights f JOIN planes p USING (tailnum) WHERE f.minute = 7;

-- name: rows locked
-- plan: LockRows[\s\S]*Index Scan using f_tail
-- set: enable_bitmapscan = off
SELECT time_hour, carrier, flight FROM flights WHERE tailnum = 'N521JB' ORDER BY 1, 2, 3 FOR UPDATE;

-- name: NULL is equal to nothing
-- plan: Result|Index Scan using f_tail|Seq Scan
SELECT (SELECT count(*) FROM flights WHERE tailnum = (SELECT NULL::text)), (SELECT count(*) FROM flights WHERE tailnum IS NULL);

-- name: a cursor
-- plan: Index Scan using f_flight
-- cursor: FORWARD 5; FORWARD 70; NEXT; FORWARD ALL
-- set: enable_bitmapscan = off, enable_seqscan = off
SELECT carrier, flight FROM flights WHERE carrier = 'US' AND flight = 2083;
