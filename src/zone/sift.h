/*
 * sift.h
 *	  Looks at the rows of the few pages that a search has found, for those that match.
 */
#ifndef MTP_ZONE_SIFT_H
#define MTP_ZONE_SIFT_H

#include "zone/zone.h"

/* So many pages are sifted, at most. */
#define MTP_ZONE_SIFTED	32

/* True if all columns of the index are the table's: expressions may do anything. */
extern bool mtp_zone_can_sift(Relation index);

/*
 * Puts the rows that match on the blocks of the search's runs, which the table has, into the
 * bitmap; returns how many.  No row that the scan's snapshot sees is left out: README.md, Sifting.
 */
extern int64 mtp_zone_sift(const MtpZoneSearch *search, Relation heap, Snapshot snapshot,
						   struct TIDBitmap *bitmap);

#endif							/* MTP_ZONE_SIFT_H */
