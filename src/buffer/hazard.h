/*
 * hazard.h
 *	  Hazard pointers: VACUUM waits for scans that hold TIDs from frames.
 *
 * A scan that reads a leaf's frame has no pin that VACUUM's cleanup lock would wait for.  It
 * announces its read before, in one of its hazard pointers (an index and a sequence number), and
 * VACUUM waits, behind its last change of the index, for all that it sees announced.  README.md,
 * "Hazard pointers", has the argument.
 */
#ifndef MTP_BUFFER_HAZARD_H
#define MTP_BUFFER_HAZARD_H

#include "core/core.h"

#define MTP_HAZARDS	8			/* of each backend: two positions of four scans, or one of eight */
#define MTP_NO_HAZARD	(-1)

/*
 * Takes one of this backend's hazard pointers, for one position of a scan; MTP_NO_HAZARD if none is
 * left. The hazard pointer belongs to the current resource owner, which gives it back after an
 * error.
 */
extern int	mtp_hazard_take(Relation index);

/*
 * Announces a read of the index, in place of what the hazard pointer stood for before.  The hazard
 * pointer has one position.
 */
extern void mtp_hazard_announce(int hazard);

/*
 * A second position with the same TIDs shares the hazard pointer; a position gives up its share.
 * The last one ends the announcement.
 */
extern void mtp_hazard_share(int hazard);
extern bool mtp_hazard_shared(int hazard);
extern void mtp_hazard_drop(int hazard);

/*
 * Waits until each scan has given up the TIDs that VACUUM has deleted.  For VACUUM, behind its
 * last change of the index, with no lock on a page and no pin.  Lets interrupts in.
 */
extern void mtp_hazard_wait(Relation index);

extern Size mtp_hazard_size(void);
extern void mtp_hazard_make(void *memory);
extern void mtp_hazard_init(void);

#endif							/* MTP_BUFFER_HAZARD_H */
