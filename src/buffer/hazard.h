/*
 * hazard.h
 *	  Hazard pointers: VACUUM waits for scans that hold TIDs from frames.
 *
 * A scan that reads a leaf's frame has no pin that VACUUM's cleanup lock would wait for.  It
 * announces its read before, in a slot (an index and a sequence number), and VACUUM waits, behind
 * its last change of the index, for all slots that it sees announced.  README.md, "Hazard
 * pointers", has the argument.
 */
#ifndef MTP_BUFFER_HAZARD_H
#define MTP_BUFFER_HAZARD_H

#include "core/core.h"

#define MTP_SLOTS	8			/* of each backend: two positions of four scans, or one of eight */
#define MTP_NO_SLOT	(-1)

/*
 * Takes one of this backend's slots, for one position of a scan; MTP_NO_SLOT if none is left.  The
 * slot belongs to the current resource owner, which gives it back after an error.
 */
extern int	mtp_hazard_take(Relation index);

/*
 * Announces a read of the index, in place of what the slot stood for before.  The slot has one
 * position.
 */
extern void mtp_hazard_announce(int slot);

/*
 * A second position with the same TIDs shares the slot; a position gives up its share.  The last
 * one ends the announcement.
 */
extern void mtp_hazard_share(int slot);
extern bool mtp_hazard_shared(int slot);
extern void mtp_hazard_drop(int slot);

/*
 * Waits until each scan has given up the TIDs that VACUUM has deleted.  For VACUUM, behind its
 * last change of the index, with no lock on a page and no pin.  Lets interrupts in.
 */
extern void mtp_hazard_wait(Relation index);

extern Size mtp_hazard_size(void);
extern void mtp_hazard_make(void *memory);
extern void mtp_hazard_init(void);

#endif							/* MTP_BUFFER_HAZARD_H */
