-- Six indexes on flights.  psql variable: index_am, the index access method.

CREATE INDEX flights_time ON flights USING :"index_am" (time_hour);
CREATE INDEX flights_tailnum ON flights USING :"index_am" (tailnum);
CREATE INDEX flights_flight ON flights USING :"index_am" (carrier, flight);
CREATE INDEX flights_route ON flights USING :"index_am" (origin, dest);
CREATE INDEX flights_dep_delay ON flights USING :"index_am" (dep_delay);
CREATE INDEX flights_arr_delay ON flights USING :"index_am" (arr_delay);
