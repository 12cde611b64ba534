/*
 * compat.h
 *	  Every difference between PostgreSQL's major versions, and nothing else.
 */
#ifndef MTP_COMPAT_H
#define MTP_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "mtpower needs PostgreSQL 15 or later"
#endif

/* PostgreSQL 16 renamed relfilenodes to relation file locators. */
#if PG_VERSION_NUM >= 160000
#include "storage/relfilelocator.h"
typedef RelFileLocator MtpLocator;
#define MtpLocatorEquals(a, b) RelFileLocatorEquals(a, b)
#define MtpRelLocator(rel) ((rel)->rd_locator)
#else
#include "storage/relfilenode.h"
typedef RelFileNode MtpLocator;
#define MtpLocatorEquals(a, b) RelFileNodeEquals(a, b)
#define MtpRelLocator(rel) ((rel)->rd_node)
#endif

#endif							/* MTP_COMPAT_H */
