/*
 * collation.h
 *	  What mtpower must know of a collation.
 */
#ifndef MTP_COLLATION_H
#define MTP_COLLATION_H

#include "core/core.h"

/*
 * The name of a collation's locale, palloc'd, or NULL if it has none; *provider gets whose it is
 * (COLLPROVIDER_…).
 */
extern char *mtp_collation_locale(Oid collation, char *provider);

/*
 * True for C.UTF-8 of the C library.  Its order is that of the code points, and so of the bytes, in
 * some libraries; PostgreSQL's own C.UTF-8 is C to core.
 */
extern bool mtp_collation_is_c_utf8(Oid collation);

/* True if text under a collation is known to have the order of its bytes. */
extern bool mtp_collation_by_bytes(Oid collation);

#endif							/* MTP_COLLATION_H */
