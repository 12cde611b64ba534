/*
 * blcksz.h
 *	  Included before everything else: compiles page code for a block size of the test's choice.
 *
 * PostgreSQL's headers fix BLCKSZ in pg_config.h, and one type's size with it.
 */
#ifdef UNIT_BLCKSZ
#include "c.h"

#undef BLCKSZ
#define BLCKSZ UNIT_BLCKSZ

typedef union UnitBlock
{
	char		data[BLCKSZ];
	double		force_align_d;
	int64		force_align_i64;
} UnitBlock;

#define PGAlignedBlock UnitBlock
#endif
