-- The indexes of the query test.  psql variable: index_am.  Half of them exist while the flights are loaded, the others
-- (from "\if :late" on) are built over the loaded tables, so that both ways to fill an index are queried.

\if :early
CREATE INDEX f_time ON flights USING :"index_am" (time_hour);
CREATE INDEX f_tail ON flights USING :"index_am" (tailnum);
CREATE INDEX f_flight ON flights USING :"index_am" (carrier, flight);
CREATE INDEX f_arr_delay ON flights USING :"index_am" (arr_delay DESC NULLS LAST);
CREATE INDEX f_day ON flights USING :"index_am" (month, day DESC, dep_time NULLS FIRST);
CREATE INDEX f_dest_icu ON flights USING :"index_am" (dest COLLATE "en-x-icu");
CREATE INDEX w_key ON weather USING :"index_am" (origin, time_hour);
CREATE INDEX a_name_icu ON airports USING :"index_am" (name COLLATE "en-x-icu");
\endif

\if :late
CREATE INDEX f_dep_delay ON flights USING :"index_am" (dep_delay);
CREATE INDEX f_route ON flights USING :"index_am" (origin, dest, time_hour);
CREATE INDEX f_distance ON flights USING :"index_am" (distance);
CREATE INDEX f_late ON flights USING :"index_am" (air_time) WHERE arr_delay > 120;
CREATE INDEX f_utc_date ON flights USING :"index_am" (((time_hour AT TIME ZONE 'UTC')::date));
CREATE INDEX f_lower_dest ON flights USING :"index_am" (lower(dest));
CREATE INDEX f_dest_incl ON flights USING :"index_am" (dest) INCLUDE (arr_delay, carrier);
CREATE INDEX w_time ON weather USING :"index_am" (time_hour);
CREATE INDEX w_pressure ON weather USING :"index_am" (pressure);
CREATE INDEX w_wind ON weather USING :"index_am" (wind_dir NULLS FIRST, wind_speed DESC);
CREATE INDEX p_tail ON planes USING :"index_am" (tailnum);
CREATE INDEX p_kind ON planes USING :"index_am" ((ARRAY[manufacturer, model]));
CREATE INDEX p_year ON planes USING :"index_am" (year);
CREATE INDEX a_faa ON airports USING :"index_am" (faa);
CREATE INDEX a_name_c ON airports USING :"index_am" (name);
CREATE INDEX a_place ON airports USING :"index_am" (lat, lon);
\endif
