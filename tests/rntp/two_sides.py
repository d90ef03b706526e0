"""A program with most of what programs have, and the pytest file that tests it: honest, and all of it must pass."""

SOLUTION = """
import json, enum, sys, asyncio, collections, contextlib
from decimal import Decimal
class MyErr(ValueError):
    def __init__(self, m): super().__init__(m); self.code = 7
def f(a, b):
    if a == "{": json.loads(a)
    if a == "exit": sys.exit(3)
    if isinstance(a, str): raise MyErr("bad input")
    return a + b
class Vec:
    def __init__(self, x, y): self.x, self.y = x, y
    def __add__(self, o): return Vec(self.x+o.x, self.y+o.y)
    def __mul__(self, k): return Vec(self.x*k, self.y*k)
    def __eq__(self, o): return (self.x, self.y) == (o.x, o.y)
    def __repr__(self): return f"Vec({self.x}, {self.y})"
def gen():
    n = 0
    while True:
        yield n
        n += 1
def upto(n): return (i for i in range(n))
class Color(enum.Enum):
    RED = 1
    BLUE = 2
def mutate(x): x.sort()
def apply(g, xs): return [g(x) for x in xs]
def show(t): print(t)
def ask(): return int(input())
def rest(): return sys.stdin.read()
P = collections.namedtuple("P", "x y")
def point(): return P(1, 2)
def make(): return (Decimal("1.5"), {1, 2}, {"a": [1.0, None]}, b"x", 10**30, 1j)
class Bag:
    def __init__(self, xs): self.xs = xs
    def __len__(self): return len(self.xs)
    def __contains__(self, x): return x in self.xs
@contextlib.contextmanager
def ctx(): yield 5
CONST = 42
async def later(): return 6
def count(n): return n
def write(p): open(p, "w").write("yes")
class DD(dict): pass
def dd(): return collections.defaultdict(int, a=1)
"""

TESTS = """
import pytest, json
import solution
from solution import f, Vec, MyErr, gen, Color, mutate, apply, show, ask, make, count
from decimal import Decimal

def test_f(): assert f(1, 2) == 3
def test_vec():
    v = Vec(1, 2) + Vec(3, 4)
    assert v == Vec(4, 6)
    assert v.x == 4 and isinstance(v, Vec) and type(v) is Vec
    assert repr(v) == "Vec(4, 6)"
    assert (v * 3).y == 18
    assert v != Vec(0, 0)
    v.x = 9
    assert v.x == 9
def test_err():
    with pytest.raises(MyErr, match="bad") as caught:
        f("a", 1)
    assert caught.value.code == 7
    with pytest.raises(ValueError):
        f("a", 1)
    with pytest.raises(json.JSONDecodeError):
        f("{", 2)
    with pytest.raises(SystemExit):
        f("exit", 2)
def test_gen():
    import itertools
    assert list(itertools.islice(gen(), 3)) == [0, 1, 2]
    assert sum(solution.upto(4)) == 6
def test_color():
    assert Color.RED is solution.Color.RED and Color.RED.value == 1 and list(Color) == [Color.RED, Color.BLUE]
    assert Color["RED"] == Color.RED and Color(2) is Color.BLUE
def test_mutate():
    x = [3, 1, 2]
    assert mutate(x) is None and x == [1, 2, 3]
    assert apply(lambda a: a + 1, [1, 2]) == [2, 3]
def test_show(capsys):
    show("hi")
    assert capsys.readouterr().out == "hi\\n"
def test_ask(monkeypatch):
    monkeypatch.setattr("builtins.input", lambda prompt="": "5")
    assert ask() == 5
    import io, sys
    monkeypatch.undo()
    monkeypatch.setattr("sys.stdin", io.StringIO("7\\n8\\n"))
    assert ask() == 7
    assert solution.rest() == "8\\n"
def test_lib():
    assert make() == (Decimal("1.5"), {1, 2}, {"a": [1.0, None]}, b"x", 10**30, 1j)
    assert solution.point().x == 1 and solution.point() == (1, 2)
    assert len(solution.Bag([1, 2])) == 2 and 1 in solution.Bag([1]) and 3 not in solution.Bag([1])
    with solution.ctx() as value:
        assert value == 5
    assert solution.CONST == 42
    import asyncio
    assert asyncio.run(solution.later()) == 6
@pytest.mark.parametrize("n", [1, 2])
def test_count(n): assert count(n) == n
class TestK:
    def test_m(self, tmp_path, monkeypatch):
        solution.write(str(tmp_path / "a"))
        assert (tmp_path / "a").read_text() == "yes"
        monkeypatch.setattr(solution, "CONST", 1)
        assert solution.CONST == 1
    def test_od(self):
        assert solution.dd() == {"a": 1}
        assert solution.DD(a=1) == {"a": 1}
"""
