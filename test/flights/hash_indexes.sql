-- The indexes of the query test of hash indexes.  psql variables: index_am, and several_am for those of several columns, which core's hash
-- can't have.  Half of them exist while the flights are loaded, the others are built over the loaded tables.

\if :early
CREATE INDEX f_time ON flights USING :"index_am" (time_hour);
CREATE INDEX f_tail ON flights USING :"index_am" (tailnum);
CREATE INDEX f_flight ON flights USING :"several_am" (carrier, flight);
CREATE INDEX f_day ON flights USING :"several_am" (month, day, dep_time);
CREATE INDEX f_dest ON flights USING :"index_am" (dest);
CREATE INDEX w_key ON weather USING :"several_am" (origin, time_hour);
CREATE INDEX a_name_icu ON airports USING :"index_am" (name COLLATE "en-x-icu");
\endif

\if :late
CREATE INDEX f_dep_delay ON flights USING :"index_am" (dep_delay);
CREATE INDEX f_route ON flights USING :"several_am" (origin, dest, time_hour);
CREATE INDEX f_late ON flights USING :"index_am" (air_time) WHERE arr_delay > 120;
CREATE INDEX f_utc_date ON flights USING :"index_am" (((time_hour AT TIME ZONE 'UTC')::date));
CREATE INDEX f_lower_dest ON flights USING :"several_am" (lower(dest), day);
CREATE INDEX f_key ON flights USING :"index_am" ((carrier || flight::text || '/' || origin || '/' || month::text || '-' || day::text));
CREATE INDEX w_time ON weather USING :"index_am" (time_hour);
CREATE INDEX w_pressure ON weather USING :"index_am" (pressure);
CREATE INDEX w_wind ON weather USING :"several_am" (wind_dir, wind_speed);
CREATE INDEX p_tail ON planes USING :"index_am" (tailnum);
CREATE INDEX p_kind ON planes USING :"index_am" ((ARRAY[manufacturer, model]));
CREATE INDEX p_year ON planes USING :"index_am" (year);
CREATE INDEX a_faa ON airports USING :"index_am" (faa);
CREATE INDEX a_place ON airports USING :"several_am" (lat, lon);
\endif
