/*
 * model.c
 *	  model list | SCENARIO [-without NAME]... [-expect WHAT] [-tso] [-thorough] [-trace]
 *
 * Prints "right", or what is wrong, with -trace behind the steps that led there.  What is expected to be wrong is looked for alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

static const Scenario *const scenarios[] = {frame_scenarios, pair_scenarios, hazard_scenarios};
static const Removal *const removals[] = {frame_removals, pair_removals, hazard_removals};

/* What is taken out, and whether the scenario has it */
static struct
{
	const char *name;
	bool		met;
}			removed[32];
static int	nremoved;

bool
with(const char *name)
{
	for (int i = 0; i < nremoved; i++)
		if (strcmp(name, removed[i].name) == 0)
		{
			removed[i].met = true;
			return false;
		}
	return true;
}

static int
list(void)
{
	for (int i = 0; i < 3; i++)
		for (const Scenario *s = scenarios[i]; s->name != NULL; s++)
			printf("scenario\t%s\n", s->name);
	for (int i = 0; i < 3; i++)
		for (const Removal *r = removals[i]; r->name != NULL; r++)
			printf("removal\t%s\t%s\t%s\t%s\n", r->name, r->scenario, r->wrong, r->what);
	return 0;
}

int
main(int argc, char **argv)
{
	const Scenario *scenario = NULL;
	const char *expected = NULL;
	bool		tso = false,
				thorough = false,
				trace = false;
	Outcome		o;

	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "list") == 0)
			return list();
		else if (strcmp(argv[i], "-without") == 0 && i + 1 < argc && nremoved < 32)
			removed[nremoved++].name = argv[++i];
		else if (strcmp(argv[i], "-expect") == 0 && i + 1 < argc)
			expected = argv[++i];
		else if (strcmp(argv[i], "-tso") == 0)
			tso = true;
		else if (strcmp(argv[i], "-thorough") == 0)
			thorough = true;
		else if (strcmp(argv[i], "-trace") == 0)
			trace = true;
		else
			for (int k = 0; k < 3; k++)
				for (const Scenario *s = scenarios[k]; s->name != NULL; s++)
					if (strcmp(s->name, argv[i]) == 0)
						scenario = s;
	if (scenario == NULL)
	{
		fprintf(stderr, "model list | SCENARIO [-without NAME]... [-expect WHAT] [-tso] [-thorough] [-trace]\n");
		return 2;
	}
	machine_reset(tso, thorough);
	scenario->program();
	for (int i = 0; i < nremoved; i++)
		if (!removed[i].met)
		{
			fprintf(stderr, "%s has no %s\n", scenario->name, removed[i].name);
			return 2;
		}
	o = explore(expected, trace);
	if (o.wrong != NULL)
		printf("wrong: %s", o.wrong);
	else if (o.ends == 0)
		printf("wrong: no path has an end");
	else
		printf("right");
	printf(" (%llu states, %llu ends)\n", (unsigned long long) o.states, (unsigned long long) o.ends);
	return o.wrong != NULL || o.ends == 0;
}
