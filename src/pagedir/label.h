/*
 * label.h
 *	  The labels that the provider knows, for the files that read and set them.
 */
#ifndef MTP_PAGEDIR_LABEL_H
#define MTP_PAGEDIR_LABEL_H

#include "nodes/pg_list.h"

#define MTP_LABEL_PROVIDER	"mtpower"
#define MTP_LABEL_OFF		"no directory"
#define MTP_LABEL_COLUMN	"directory "

/* Returns which column of the directory a label names, from 1, or 0 if it names none. */
extern int	mtp_pagedir_label_number(const char *label);

/* Returns the columns of a relation that have our labels; 0 stands for the relation itself. */
extern List *mtp_pagedir_label_columns(Oid relid);

#endif							/* MTP_PAGEDIR_LABEL_H */
