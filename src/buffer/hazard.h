/*
 * hazard.h
 *	  Hazard slots: whose TIDs VACUUM has to wait for, of those who read them in frames.
 *
 * Some scans may not return a TID that VACUUM has let be used anew (index-only scans: the visibility map says then that the new row is
 * visible to all).  Who reads a leaf under a pin is waited for by the cleanup lock.  Who reads its frame has no pin: he announces before that
 * he is about to (a slot with the index and a sequence number), and VACUUM waits, after its last change of the index, for all slots that it
 * sees announced.  Michael's hazard pointers (2004), for an index in place of a node.  README.md has the argument.
 */
#ifndef MTP_BUFFER_HAZARD_H
#define MTP_BUFFER_HAZARD_H

#include "core/core.h"

#define MTP_SLOTS	8			/* of each backend: two positions of four scans, or one of eight */
#define MTP_NO_SLOT	(-1)

/*
 * One of this backend's slots, for one position of a scan; MTP_NO_SLOT if there is none left.  Belongs to the current resource owner, which
 * gives it back after an error.
 */
extern int	mtp_hazard_take(Relation index);

/* Announces what is about to be read, in place of what the slot stood for before.  Nobody else may share the slot. */
extern void mtp_hazard_announce(int slot);

/* Another position with the same TIDs shares the slot; one gives up its share.  The last one ends the announcement. */
extern void mtp_hazard_share(int slot);
extern bool mtp_hazard_shared(int slot);
extern void mtp_hazard_drop(int slot);

/*
 * For VACUUM, after its last change of the index, with no lock on a page and no pin: waits until whoever has read a TID that it has deleted has
 * given it up.  Lets interrupts in.
 */
extern void mtp_hazard_wait(Relation index);

extern Size mtp_hazard_size(void);
extern void mtp_hazard_make(void *memory);
extern void mtp_hazard_init(void);

#endif							/* MTP_BUFFER_HAZARD_H */
