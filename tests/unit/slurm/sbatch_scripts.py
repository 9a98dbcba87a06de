"""Option lines of batch scripts, and what sbatch takes from them (`tests/cluster/test_sbatch_lines.py`)."""

from __future__ import annotations

from typing import TypeAlias

#: by option: the value that counts
Taken: TypeAlias = dict[str, str]

#: what stands in the script, and the options of its first component
SCRIPTS: list[tuple[str, Taken]] = [
    # The words of all lines are one command line.
    ("#SBATCH --comment\n#SBATCH hello -n2\n", {"comment": "hello", "ntasks": "2"}),
    ("#SBATCH -n2 -J\n\n# not this line\n#SBATCH --comment=x\n", {"job-name": "--comment=x", "ntasks": "2"}),
    ("#SBATCH -n2 --comment \n#SBATCH\n#SBATCH 'a b'\n", {"comment": "a b", "ntasks": "2"}),
    # A comment ends a line, within a word, too.
    ("#SBATCH -n2 # a --comment=c\n#SBATCH --comment=d\n", {"comment": "d", "ntasks": "2"}),
    ("#SBATCH -n2#4 --comment=c\n", {"ntasks": "2"}),
    ("#SBATCH -n2 --comment='x # y'\n", {"comment": "x # y", "ntasks": "2"}),
    ("#SBATCH -n2 --comment=a\\#b\n", {"comment": "a#b", "ntasks": "2"}),
    # A backslash keeps the next character.
    ("#SBATCH --comment=a\\\\b -n2\n", {"comment": "a\\b", "ntasks": "2"}),
    ("#SBATCH --comment='a\\'b' -n2\n", {"comment": "a'b", "ntasks": "2"}),
    ("#SBATCH --comment=a\\\n#SBATCH -n2\n", {"comment": "a", "ntasks": "2"}),
    # An empty word ends its line.
    ('#SBATCH -n2 "" --comment=c\n', {"ntasks": "2"}),
    ("#SBATCH -n2 ''\"\" --comment=c\n", {"ntasks": "2"}),
    ("#SBATCH --comment='' -n2\n", {"comment": "", "ntasks": "2"}),
    ("#SBATCH --comment '' -n3\n#SBATCH c -n2\n", {"comment": "c", "ntasks": "2"}),
    # Blanks are those of C alone.
    ("#SBATCH --comment=a\u00a0b -n2\n", {"comment": "a\u00a0b", "ntasks": "2"}),
    ("#SBATCH -n2 \f--comment=c\n\f\n#SBATCH -n3\n", {"comment": "c", "ntasks": "3"}),
    ("#SBATCH -n2\n\u00a0\n#SBATCH -n3\n", {"ntasks": "2"}),
    # Other lines of this kind are none.
    ("#SLURM -n3\n #SBATCH -n4\n#SBATCH-n2\n# #SBATCH -n5\n", {"ntasks": "2"}),
    # A heterogeneous job's next component begins at the word, whatever its case.
    ("#SBATCH -n2\n#SBATCH HetJob -n4\n#SBATCH -n3\n", {"ntasks": "2"}),
    ("#SBATCH -n2\n#SBATCH packjob\n#SBATCH -n3\n", {"ntasks": "2"}),
    ("#SBATCH -n2 hetjob --comment=c\n#SBATCH -n3\n", {"ntasks": "3"}),
    ("#SBATCH -n2 --comment=hetjob\n", {"comment": "hetjob", "ntasks": "2"}),
    ("#SBATCH -n2\n#SBATCH # hetjob\n#SBATCH -n3\n", {"ntasks": "3"}),
]

#: a blank behind a backslash: one of the word, or a script that sbatch refuses (22.05)
ESCAPED: tuple[str, Taken] = ("#SBATCH --comment=a\\ b -n2\n", {"comment": "a b", "ntasks": "2"})
