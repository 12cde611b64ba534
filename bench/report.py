"""The table that is printed, and the CSV that stays."""
import csv, statistics
from math import comb


def interval(ratios):
    """An interval of the median by order statistics (sign test), and how sure it is: the narrowest that is so for at
    least 95 % where there are enough ratios, else all of them."""
    ratios = sorted(ratios)
    n, tail, k = len(ratios), 0.0, 0
    while k < n // 2 and tail + comb(n, k) / 2 ** n <= 0.025:
        tail += comb(n, k) / 2 ** n
        k += 1
    if k == 0:
        return ratios[0], ratios[-1], 1 - 2 / 2 ** n
    return ratios[k - 1], ratios[n - k], 1 - 2 * tail


def number(x):
    return '%.3f' % x if abs(x) < 1000 else '%.1f' % x


class Report:
    FIELDS = ['part', 'case', 'side', 'runs', 'median', 'min', 'max', 'unit', 'ratio', 'low', 'high', 'sure', 'target', 'verdict']
    LINE = '%-42s %-27s %10s %10s %10s %-4s %8s %-17s %-10s %s'

    def __init__(self, path):
        self.file = open(path, 'w', newline='')
        self.csv = csv.DictWriter(self.file, self.FIELDS)
        self.csv.writeheader()
        self.verdicts, self.failed = [], []

    def begin(self, part, about):
        print('\n%s: %s' % (part, ' '.join(about.split())))
        print(self.LINE % ('case', 'side', 'median', 'min', 'max', 'unit', 'ratio', 'interval', 'target', ''), flush=True)

    def fail(self, part, why):
        self.failed.append(part)
        print('%s FAILED: %s' % (part, why), flush=True)

    def show(self, part, case, results, unit='s', own='mtpower', targets={}, most=None, least=None, ratios=True):
        """results: side -> figures in round order.

        Ratios are side / own of the same round.  targets: side -> what its ratio must reach; most, least: what the median of
        `own` must not exceed, or must reach.  ratios: do they mean anything?"""
        for side, runs in results.items():
            row = dict(part=part, case=case, side=side, runs=len(runs), median=statistics.median(runs), min=min(runs), max=max(runs), unit=unit)
            goal = ''
            if side != own and ratios:
                pairs = [a / b for a, b in zip(runs, results[own])]
                row['ratio'] = statistics.median(pairs)
                row['low'], row['high'], row['sure'] = interval(pairs)
                if side in targets:
                    goal = '>= %.2f' % targets[side]
                    row['verdict'] = verdict(row['ratio'] >= targets[side], row['high'] >= targets[side])
            elif side == own and most is not None:
                goal = '<= %g' % most
                row['verdict'] = verdict(row['median'] <= most, row['min'] <= most)
            elif side == own and least is not None:
                goal = '>= %g' % least
                row['verdict'] = verdict(row['median'] >= least, row['max'] >= least)
            if goal:
                row['target'] = goal
                self.verdicts.append((row['verdict'], '%s: %s, %s' % (part, case, side)))
            print(self.LINE % (case, side, number(row['median']), number(row['min']), number(row['max']), unit,
                               '%.3f' % row['ratio'] if 'ratio' in row else '',
                               '%.3f .. %.3f' % (row['low'], row['high']) if 'ratio' in row else '', goal, row.get('verdict', '')), flush=True)
            self.csv.writerow(row)
        self.file.flush()

    def summary(self):
        """One line; true if no part failed (a missed target is a result)."""
        names = lambda v: [name for verdict, name in self.verdicts if verdict == v]
        shown = lambda v: '%d %s%s' % (len(names(v)), v, ' (%s)' % '; '.join(names(v)) if names(v) and v != 'met' else '')
        print('\n%d targets: %s%s' % (len(self.verdicts), ', '.join(shown(v) for v in ('met', 'open', 'missed')),
                                      '; FAILED: ' + ', '.join(self.failed) if self.failed else ''), flush=True)
        return not self.failed


def verdict(median_does, best_does):
    """open: the median falls short of the target, the interval does not."""
    return 'met' if median_does else 'open' if best_does else 'missed'
