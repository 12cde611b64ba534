"""Writes RESULTS.md: a section for each part, a table row for each figure.  Prints the same."""
import math, re, statistics

HEAD = '''# Results

`make bench` writes this file. A run of some parts replaces their sections. [README.md](README.md)
says how to read it.
'''
ROW = '| %-84s | %10s | %-4s | %10s | %10s | %5s | %-9s | %-6s |'


def interval(values):
    """The interval of the median by order statistics (sign test): the narrowest one that holds with
    95 % certainty where there are enough values, else from the least to the greatest."""
    values, tail, k = sorted(values), 0.0, 0
    n = len(values)
    while k < n // 2 and tail + math.comb(n, k) / 2 ** n <= 0.025:
        tail += math.comb(n, k) / 2 ** n
        k += 1
    return values[max(k, 1) - 1], values[n - max(k, 1)]


def number(x):
    """Four digits that count."""
    return '%.*f' % (max(3 - math.floor(math.log10(abs(x))), 0) if x else 0, x)


def figures_of(text):
    """Key -> figure, of RESULTS.md."""
    rows = re.findall(r'^\| ([\w.]+) +\| +(-?[\d.]+) \|', text, re.M)
    return {key: float(figure) for key, figure in rows}


def key_of(*names):
    """The key of a figure: lower case, words joined by _, names joined by dots."""
    return '.'.join(re.sub(r'\W+', '_', name.lower(), flags=re.A).strip('_') for name in names)


class Report:
    def __init__(self, path, parts, conditions):
        """path: the file, which may have sections already; parts: the order of sections."""
        self.path, self.parts, self.conditions = path, list(parts), conditions
        self.verdicts, self.failed = [], []
        try:
            with open(path) as f:
                _, *old = re.split(r'^## ', f.read(), flags=re.M)
        except FileNotFoundError:
            old = []
        self.sections = {text.split('\n', 1)[0]: '## ' + text.rstrip() + '\n' for text in old}

    def begin(self, part, about):
        self.part, self.keys, self.lines = part, set(), []
        self.write('## %s\n\n%s\n\n%s\n' % (part, ' '.join(about.split()), self.conditions))
        self.write(ROW % ('key', 'figure', 'unit', 'low', 'high', 'pairs', 'target', ''))
        self.write('|---|--:|---|--:|--:|--:|---|---|')

    def write(self, line):
        self.lines.append(line)
        print(line, flush=True)

    def end(self, notes):
        """Replaces the part's section in the file."""
        for note in notes:
            self.write('\n' + note)
        print()
        self.sections[self.part] = '\n'.join(self.lines) + '\n'
        with open(self.path, 'w') as f:
            sections = [self.sections[p] for p in self.parts if p in self.sections]
            f.write('\n'.join([HEAD] + sections))

    def figures(self):
        """Key -> figure, of all sections."""
        return figures_of('\n'.join(self.sections.values()))

    def fail(self, why):
        """The part's section stays as it was."""
        self.failed.append(self.part)
        print('%s FAILED: %s\n' % (self.part, why), flush=True)

    def result(self, key, values, unit, most=None, least=None):
        """A figure: the median of values.  most, least: what it must not exceed, or must reach."""
        if key in self.keys:
            raise ValueError('two figures have the key ' + key)
        self.keys.add(key)
        median, (low, high) = statistics.median(values), interval(values)
        target = verdict = ''
        if most is not None:
            target, verdict = '<= %.4g' % most, verdict_of(median <= most, low <= most)
        elif least is not None:
            target, verdict = '>= %.4g' % least, verdict_of(median >= least, high >= least)
        if target:
            self.verdicts.append((verdict, key))
        self.write(ROW % (key, number(median), unit, number(low), number(high), len(values), target,
                          verdict))

    def show(self, case, results, unit='s', own='mtpower', targets={}, most=None, least=None,
             ratios=True):
        """results: side -> figures in round order.

        A ratio is side / own of the same round.  targets: side -> what its ratio must reach; most,
        least: what the median of `own` must not exceed, or must reach.  ratios: write them."""
        for side, runs in results.items():
            key = key_of(self.part, case, side)
            self.result(key, runs, unit, *((most, least) if side == own else ()))
            if side != own and ratios:
                self.result(key + '.ratio', [a / b for a, b in zip(runs, results[own])], '×',
                            least=targets.get(side))

    def summary(self):
        """One line; true if no part failed (a missed target is a result)."""
        def shown(verdict):
            keys = [key for v, key in self.verdicts if v == verdict]
            names = ' (%s)' % '; '.join(keys) if keys and verdict != 'met' else ''
            return '%d %s%s' % (len(keys), verdict, names)
        print('%d targets: %s%s' % (len(self.verdicts), ', '.join(map(shown, VERDICTS)),
                                    '; FAILED: ' + ', '.join(self.failed) if self.failed else ''))
        return not self.failed


VERDICTS = ('met', 'open', 'missed')


def verdict_of(median_does, best_does):
    """open: the median falls short of the target, the interval does not."""
    return VERDICTS[0 if median_does else 1 if best_does else 2]
