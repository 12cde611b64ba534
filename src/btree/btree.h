/*
 * btree.h
 *	  Core's btree indexes of mtpower tables, fed in batches.
 */
#ifndef MTP_BTREE_H
#define MTP_BTREE_H

#include "core/core.h"

/* The setting mtpower.core_indexes. */
typedef enum MtpCoreIndexes
{
	MTP_CORE_OFF,				/* core's own path */
	MTP_CORE_INSERT,			/* queued, sorted, and inserted one by one by their owner */
	MTP_CORE_MERGE				/* … and merged into leaves, by workers too, where it is right */
} MtpCoreIndexes;

extern int	mtp_core_indexes;

/*
 * Has core's btree indexes of the table, as far as a statement of this backend has them open, call
 * the batch engine from now on.  The table AM calls it before core asks for index entries.
 */
extern void mtp_btree_redirect(Relation rel);

extern void mtp_btree_init(void);
extern void mtp_btree_batch_init(void);
extern void mtp_btree_redo_init(void);

#endif							/* MTP_BTREE_H */
