/*
 * model.h
 *	  What is checked: programs on the machine, and what is taken out of them.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "machine.h"

typedef struct Scenario
{
	const char *name;
	void		(*program) (void);
} Scenario;

/* Something that is taken out, and what becomes wrong then.  "": nothing does, for the reason that README.md gives. */
typedef struct Removal
{
	const char *name;
	const char *scenario;
	const char *wrong;
	const char *what;
} Removal;

extern const Scenario frame_scenarios[];
extern const Scenario pair_scenarios[];
extern const Scenario hazard_scenarios[];
extern const Removal frame_removals[];
extern const Removal pair_removals[];
extern const Removal hazard_removals[];

/* Is this not taken out? */
extern bool with(const char *name);

#endif
