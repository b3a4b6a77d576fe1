"""Parses one Spark SQL expression to a syntax tree, with Spark's own precedence and literals.

A general SQL parser renames functions into its own vocabulary; here each call keeps its original
name, by which it is admitted or refused. Knows no types of columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, NoReturn

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.strings import WrongText, unclosed, unescape, without_comments
from deltaplane.expr.types import (
    BOOLEAN,
    BYTE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    MAX_PRECISION,
    SHORT,
    STRING,
    VOID,
    SparkType,
    decimal,
    named,
)

# Deeper expressions are refused. Nested calls reach Python's recursion limit earlier.
_MAX_DEPTH = 60
_TOO_DEEP = "nested too deeply: compute parts of it in columns of their own, or use the Spark engine for it"


@dataclass(frozen=True)
class Literal:
    """A constant; numbers stay text, so that no digit is lost. `double_quoted` tells the quotes of
    a string."""

    value: str | bool | bytes | None
    type: SparkType
    double_quoted: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Name:
    """A column or a field below one."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Call:
    """An operator or function with its arguments."""

    name: str
    args: tuple[Syntax, ...]


@dataclass(frozen=True)
class Cast:
    """A conversion; `attempt` gives null instead of an error. `literal`: the text is a typed
    constant, such as DATE '2024-01-01'."""

    arg: Syntax
    to: SparkType
    attempt: bool = False
    literal: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Variable:
    """A parameter of a lambda function, numbered from the outermost function on."""

    number: int


@dataclass(frozen=True)
class Lambda(Call):
    """A lambda function; `variables` are the numbers of its parameters, `args` only its body."""

    variables: tuple[int, ...] = ()


Syntax = Literal | Name | Call | Cast | Variable


class Token(NamedTuple):
    """A token; `start` is its position in the text, `kind` one of hex, raw, string, quoted, number,
    name and op."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.start + len(self.text)


def pattern(signs: str = "") -> re.Pattern[str]:
    """The pattern of tokens; `signs` are additional operator characters, for a character class."""
    return re.compile(_TOKEN + f"  | (?P<sign>[{signs}])" if signs else _TOKEN, re.VERBOSE | re.DOTALL | re.IGNORECASE)


_TOKEN = r"""
    (?P<space>\s+)
  | (?P<hex>[xX]'[^']*')
  | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
  | (?P<string>'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|"[^"\\]*(?:(?:\\.|"")[^"\\]*)*")
  | (?P<quoted>`[^`]*(?:``[^`]*)*`)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYFD])?(?![A-Za-z_0-9]))
  | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
  | (?P<op>/\*\+|\*/|<=>|>>>|<<|>>|<>|!=|<=|>=|==|\|\||->|::|\|>|[-+*/%&|^~!<>=().,\[\]])
"""
_BINARY: list[dict[str, str]] = [
    {o: o for o in ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")},
    {"|": "|"},
    {"^": "^"},
    {"&": "&"},
    {"<<": "<<", ">>": "shiftright", ">>>": "shiftrightunsigned"},
    {"+": "+", "-": "-", "||": "||"},
    {"*": "*", "/": "/", "%": "%", "div": "div"},
]
# Keywords that end an operand, so that they can't be an unquoted column there.
_RESERVED = {"and", "or", "not", "then", "else", "end", "when", "case", "between", "in", "is", "like", "as", "from"}
# How a word changes the depth of parentheses and the like.
_DEPTHS = {"(": 1, "[": 1, "case": 1, ")": -1, "]": -1, "end": -1}
_UNITS = set("microsecond millisecond second minute hour day dayofyear week month quarter year".split())
_WITH_UNITS = {
    **dict.fromkeys(("dateadd", "date_add", "timestampadd"), "timestampadd"),
    **dict.fromkeys(("datediff", "date_diff", "timestampdiff"), "timestampdiff"),
}
# The largest numbers, as Spark compares digits with them.
_LARGEST = {FLOAT: "3.4028234663852886e38", DOUBLE: "1.7976931348623157e308"}
_SUFFIXES = {"l": LONG, "s": SHORT, "y": BYTE, "f": FLOAT, "d": DOUBLE}


def parse(sql: str) -> Syntax:
    """The syntax tree of one expression.

    Raises:
        InvalidArgumentError: not an expression of Spark SQL.
        UnsupportedExpressionError: an unsupported construct, by name.
    """
    parser = Parser(sql)
    try:
        return parser.whole()
    except RecursionError:
        parser.wrong(_TOO_DEEP)


def called(node: Syntax) -> set[str]:
    """The functions and operators of a tree, by name."""
    # A loop, since long sums nest deeply to the left.
    names, left = set(), [node]
    while left:
        match left.pop():
            case Call(name, args):
                names.add(name)
                left.extend(args)
            case Cast(arg):
                left.append(arg)
            case Literal(_, SparkType(interval=True)):
                names.add("interval")
    return names


def captured(node: Syntax) -> list[str]:
    """The columns in lambda functions of a tree."""
    names, left = [], [(node, False)]
    while left:
        here, inside = left.pop()
        match here:
            case Name(parts) if inside:
                names.append(".".join(parts))
            case Call(_, args):
                left.extend((arg, inside or isinstance(here, Lambda)) for arg in args)
            case Cast(arg):
                left.append((arg, inside))
    return sorted(names)


def shown(sql: str) -> str:
    """A text as errors show it."""
    return sql if len(sql) <= 200 else sql[:200] + "…"


class Parser:
    """Parses expressions, one token after the other; `at` is the next token's index.

    Subclasses parse other texts, and raise their own errors.
    """

    pattern: ClassVar[re.Pattern[str]] = pattern()
    # Whether the names of a struct's fields are known from the text alone.
    names_fields: ClassVar[bool] = False

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.at = 0
        self.depth = 0
        # The parameters of the enclosing lambda functions, in lower case.
        self.variables: list[str] = []
        self.tokens = self._tokens()

    def _tokens(self) -> list[Token]:
        tokens, position = list[Token](), 0
        try:
            text = without_comments(self.sql)
            # Each token begins where the previous one ends: a search would try an invalid text
            # again at each position.
            while True:
                if (whole := self.next_token(text, position, tokens)) is not None:
                    tokens.append(whole)
                    position = whole.end
                if (match := self.pattern.match(text, position)) is None:
                    break
                position, kind = match.end(), match.lastgroup
                if kind is not None and kind != "space":
                    tokens.append(Token("op" if kind == "sign" else kind, match.group(), match.start()))
            if text[position : position + 1] in ("'", '"', "`"):
                raise unclosed(text, position)
        except WrongText as e:
            self.wrong(str(e), e.place)
        if position < len(text):
            self.wrong(f"unexpected {text[position]!r}", position)
        return tokens

    def next_token(self, text: str, position: int, before: list[Token]) -> Token | None:
        """A token at a position that only a subclass knows; `before` are the previous ones."""
        return None

    def wrong(self, why: str, place: int | None = None) -> NoReturn:
        """Raises a syntax error at a position in the text or at the next token."""
        raise InvalidArgumentError(f"not an expression of Spark SQL ({shown(why)}): {shown(self.sql)}")

    def refuse(self, what: str) -> NoReturn:
        """Raises that a construct is unsupported."""
        raise UnsupportedExpressionError(f"the expression uses {what}, which the embedded engine doesn't evaluate")

    # --- tokens ---

    def peek(self, ahead: int = 0) -> str:
        """The next operator or word in lower case; nothing for literals and quoted names."""
        if self.at + ahead >= len(self.tokens):
            return ""
        kind, text, _ = self.tokens[self.at + ahead]
        return text.lower() if kind in ("op", "name") else ""

    def kind(self, ahead: int = 0) -> str:
        """The kind of the next token; `end` behind the last one."""
        return self.tokens[self.at + ahead].kind if self.at + ahead < len(self.tokens) else "end"

    def take(self, *wanted: str) -> bool:
        """Skips these operators or words if they come next; returns whether they do."""
        for i, word in enumerate(wanted):
            if self.peek(i) != word:
                return False
        self.at += len(wanted)
        return True

    def expect(self, wanted: str) -> None:
        """Skips an operator or word that must come next."""
        if not self.take(wanted):
            actual = self.tokens[self.at].text if self.at < len(self.tokens) else "the end"
            self.wrong(f"expected {wanted!r}, found {actual!r}")

    # --- grammar, loosest first ---

    def whole(self) -> Syntax:
        if not self.tokens:
            self.wrong("it is empty")
        made = self.expression()
        if self.at < len(self.tokens):
            self.wrong(f"unexpected {self.tokens[self.at].text!r}")
        return made

    def expression(self) -> Syntax:
        """The expression that comes next."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.wrong(_TOO_DEEP)
        made = self.chain("or", lambda: self.chain("and", self.negation))
        self.depth -= 1
        return made

    def chain(self, word: str, operand: object) -> Syntax:
        assert callable(operand)
        args = [operand()]
        while self.take(word):
            args.append(operand())
        return args[0] if len(args) == 1 else Call(word, tuple(args))

    def negation(self) -> Syntax:
        count = 0
        while self.take("not") or self.take("!"):
            count += 1
        made = self.predicate()
        return Call("not", (made,)) if count % 2 else Call("not", (Call("not", (made,)),)) if count else made

    def predicate(self) -> Syntax:
        value = self.binary(0)
        if self.take("is"):
            return self.is_test(value, self.take("not"))
        negated = self.take("not")
        if self.peek() in ("like", "ilike") and self.peek(1) in ("any", "some", "all"):
            return self.like_several(value, negated)
        made = self.tested(value)
        if made is None:
            if negated:
                self.wrong("NOT without a test after it")
            return value
        return Call("not", (made,)) if negated else made

    def tested(self, value: Syntax) -> Syntax | None:
        if self.take("between"):
            low = self.binary(0)
            self.expect("and")
            return Call("between", (value, low, self.binary(0)))
        if self.take("in"):
            self.expect("(")
            if self.peek() in ("select", "with"):
                self.refuse("a subquery")
            if self.peek() == ")":
                self.wrong("IN needs a value: write FALSE for a test that nothing meets")
            return Call("in", (value, *self.arguments()))
        for word in ("like", "ilike"):
            if self.take(word):
                pattern = self.binary(0)
                return (
                    Call(word, (value, pattern, self.string())) if self.take("escape") else Call(word, (value, pattern))
                )
        if self.take("rlike") or self.take("regexp"):
            return Call("rlike", (value, self.binary(0)))
        return None

    def like_several(self, value: Syntax, negated: bool) -> Syntax:
        """LIKE ANY or LIKE ALL: a test for each pattern. NOT denies each of the tests."""
        word, every = self.peek(), self.peek(1) == "all"
        self.at += 2
        self.expect("(")
        if self.peek() == ")":
            self.wrong(f"{word.upper()} {'ALL' if every else 'ANY'} needs a pattern")
        tests: list[Syntax] = []
        for pattern in self.arguments():
            # Nothing is known of a match with null.
            is_null = isinstance(pattern, Literal) and pattern.value is None
            test: Syntax = Literal(None, BOOLEAN) if is_null else Call(word, (value, pattern))
            tests.append(Call("not", (test,)) if negated else test)
        return tests[0] if len(tests) == 1 else Call("and" if every else "or", tuple(tests))

    def is_test(self, value: Syntax, negated: bool) -> Syntax:
        if self.take("distinct", "from"):
            made: Syntax = Call("<=>", (value, self.binary(0)))
            negated = not negated
        elif self.take("null") or self.take("unknown"):
            return Call("isnotnull" if negated else "isnull", (value,))
        elif self.peek() in ("true", "false"):
            made = Call("<=>", (value, Literal(self.peek() == "true", BOOLEAN)))
            self.at += 1
        else:
            self.wrong("IS needs NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
        return Call("not", (made,)) if negated else made

    def binary(self, level: int) -> Syntax:
        if level == len(_BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while (op := _BINARY[level].get(self.peek())) is not None:
            self.at += 1
            left = Call(op, (left, self.binary(level + 1)))
        return left

    def unary(self) -> Syntax:
        if self.peek() == "-" and self.kind(1) == "number":
            self.at += 1
            return self.postfix(self.number("-"))
        for sign, name in (("-", "negative"), ("+", "positive"), ("~", "~")):
            if self.take(sign):
                self.depth += 1
                if self.depth > _MAX_DEPTH:
                    self.wrong(_TOO_DEEP)
                made = Call(name, (self.unary(),))
                self.depth -= 1
                return made
        return self.postfix(self.primary())

    def postfix(self, value: Syntax) -> Syntax:
        while True:
            if self.take("["):
                value = Call("[]", (value, self.expression()))
                self.expect("]")
            elif self.take("."):
                value = Call(".", (value, Literal(self.identifier(), STRING)))
            elif self.take("::"):
                value = Cast(value, self.type())
            elif self.peek() == "collate":
                self.refuse("COLLATE")
            else:
                return value

    def primary(self) -> Syntax:
        kind = self.kind()
        if kind == "number":
            return self.number("")
        if kind in ("string", "raw"):
            return self.string()
        if kind == "hex":
            return self.hex()
        if kind == "quoted":
            return self.column()
        if self.take("("):
            if self.peek() in ("select", "with"):
                self.refuse("a subquery")
            made = self.expression()
            if self.peek() == ",":
                self.refuse("a row constructor")
            self.expect(")")
            return made
        if kind != "name":
            self.wrong(f"unexpected {self.tokens[self.at].text!r}" if kind != "end" else "it ends too early")
        return self.word()

    def word(self) -> Syntax:
        word = self.peek()
        if word in ("true", "false"):
            self.at += 1
            return Literal(word == "true", BOOLEAN)
        if word == "null":
            self.at += 1
            return Literal(None, VOID)
        if self.kind(1) in ("string", "raw") and word in ("date", "timestamp", "timestamp_ntz", "timestamp_ltz"):
            self.at += 1
            to = named(word)
            assert to is not None
            return Cast(Literal(self.string().value, STRING), to, literal=True)
        if word == "interval" and self.counted(1):
            self.at += 1
            return self.interval()
        if word == "case":
            self.at += 1
            return self.case()
        if word in ("current_date", "current_timestamp", "localtimestamp") and self.peek(1) != "(":
            self.at += 1
            return Call(word, ())
        if word in _RESERVED and not (word == "like" and self.peek(1) == "("):
            self.wrong(f"unexpected {word!r}")
        return self.call() if self.peek(1) == "(" else self.column()

    def counted(self, ahead: int) -> bool:
        """Whether a count of an interval comes next: a string or a number, with or without a
        sign."""
        ahead += self.peek(ahead) in ("+", "-")
        return self.kind(ahead) in ("string", "raw", "number")

    def interval(self) -> Literal:
        """The text after INTERVAL: counts with units, fields from one unit to another, or either as
        a string."""
        try:
            total, data_type = self.duration()
        except ValueError as e:
            self.wrong(str(e))
        return Literal(str(total), data_type)

    def duration(self) -> tuple[int, SparkType]:
        # Its patterns take longer to compile than a simple predicate takes to parse.
        from deltaplane.expr import durations

        counted: list[tuple[str, str]] = []
        while self.counted(0):
            sign = self.peek() if self.peek() in ("+", "-") else ""
            self.at += len(sign)
            quoted = self.kind() != "number"
            count = str(self.string().value) if quoted else self.tokens[self.at].text
            self.at += not quoted
            if self.kind() != "name" or self.peek() in _RESERVED:
                if not quoted or sign or counted:
                    self.wrong("an interval needs a unit")
                return durations.from_units(durations.units_in(count))
            unit = self.identifier()
            if self.take("to"):
                # Two signs cancel each other.
                total, data_type = durations.from_fields(count, unit, self.identifier())
                return (-total if sign == "-" else total), data_type
            if sign == "-" and count.strip()[:1] in "+-":
                count = count.strip()
                sign = "" if count[0] == "-" else "-"
                count = count[1:]
            counted.append((sign + count.strip(), unit))
        return durations.from_units(counted)

    def case(self) -> Syntax:
        subject = None if self.peek() == "when" else self.expression()
        args: list[Syntax] = []
        while self.take("when"):
            test = self.expression()
            args.append(test if subject is None else Call("=", (subject, test)))
            self.expect("then")
            args.append(self.expression())
        if not args:
            self.wrong("CASE without WHEN")
        if self.take("else"):
            args.append(self.expression())
        self.expect("end")
        return Call("case", tuple(args))

    def call(self) -> Syntax:
        name = self.peek()
        self.at += 2
        if name in ("cast", "try_cast"):
            value = self.expression()
            self.expect("as")
            made = Cast(value, self.type(), name == "try_cast")
            self.expect(")")
            return made
        if name == "extract":
            unit = self.identifier()
            self.expect("from")
            return self.closed(Call("extract", (Literal(unit, STRING), self.expression())))
        if name == "position" and (call := self.position()) is not None:
            return call
        if name == "trim" and (call := self.trim()) is not None:
            return call
        if name in _WITH_UNITS and self.peek() in _UNITS and self.peek(1) == ",":
            return self.with_unit(name)
        if name in _WITH_UNITS.values():
            self.wrong(f"expected a unit of time without quotes, such as DAY, as the first argument of {name}")
        if name == "struct" and self.peek() not in (")", "*"):
            return self.struct()
        if name == "like":
            return self.like()
        if self.take("distinct"):
            self.refuse("DISTINCT")
        return Call(name, tuple(self.arguments(function=name)))

    def with_unit(self, name: str) -> Call:
        """A call with a unit of time, a count or time, and a time. With another number of arguments
        the unit's word is a column."""
        word = Literal(self.tokens[self.at].text, STRING)
        column = self.column()
        self.expect(",")
        args = self.arguments(function=name)
        return Call(_WITH_UNITS[name], (word, *args)) if len(args) == 2 else Call(name, (column, *args))

    def comes_before_comma(self, word: str) -> bool:
        """Whether a word comes outside of inner parentheses, before a comma and the end of these
        ones. A second attempt at parsing would double the time at each level of nested calls."""
        depth = ahead = 0
        before = ""
        while self.kind(ahead) != "end":
            sign = self.peek(ahead)
            # A word behind a dot is a field.
            depth += 0 if before == "." else _DEPTHS.get(sign, 0)
            if depth < 0 or (depth == 0 and sign == ","):
                break
            if depth == 0 and sign == word and before not in (".", "distinct", "not"):
                return True
            before = sign
            ahead += 1
        return False

    def closed(self, made: Call) -> Call:
        self.expect(")")
        if self.peek() in ("over", "filter"):
            self.refuse("a window or aggregate function")
        return made

    def like(self) -> Call:
        """LIKE as a function, whose third argument is the escape character."""
        args = self.arguments(function="like")
        if len(args) not in (2, 3):
            self.wrong(f"`like` takes a text, a pattern and an escape, not {len(args)} arguments")
        if len(args) == 3 and not (isinstance(args[2], Literal) and args[2].type == STRING):
            self.refuse("LIKE with an escape that isn't a constant")
        return Call("like", tuple(args))

    def struct(self) -> Call:
        """A struct; if one of its fields has a name it becomes `named_struct`, which names all of
        them."""
        values: list[Syntax] = []
        names: list[str | None] = []
        while True:
            values.append(self.expression())
            named = self.take("as") or self.kind() in ("name", "quoted")
            names.append(self.identifier() if named else None)
            if not self.take(","):
                break
        self.expect(")")
        self.no_window()
        if not any(names) and not self.names_fields:
            return Call("struct", tuple(values))
        args: list[Syntax] = []
        for i, (name, value) in enumerate(zip(names, values, strict=True), 1):
            args += (Literal(name or self.field_name(value, i), STRING), value)
        return Call("named_struct", tuple(args))

    def field_name(self, value: Syntax, number: int) -> str:
        """Spark's name of an unnamed struct field: the column's name, or its number."""
        if isinstance(value, Name):
            return value.parts[-1]
        if isinstance(value, Variable) or (self.variables and isinstance(value, Call) and value.name in (".", "[]")):
            self.refuse("STRUCT with a lambda function's parameter that AS gives no name")
        if isinstance(value, Call) and value.name in (".", "[]"):
            key = value.args[1]
            if isinstance(key, Literal) and key.type == STRING:
                return str(key.value)
        return f"col{number}"

    def position(self) -> Call | None:
        if not self.comes_before_comma("in"):
            return None
        what = self.binary(0)
        self.expect("in")
        return self.closed(Call("position", (what, self.expression())))

    def trim(self) -> Call | None:
        if not self.comes_before_comma("from"):
            return None
        name = {"both": "trim", "leading": "ltrim", "trailing": "rtrim"}.get(self.peek())
        if name is not None:
            self.at += 1
            if self.take("from"):
                return self.closed(Call(name, (self.expression(),)))
        chars = self.expression()
        self.expect("from")
        # In a call with two arguments, the trimmed characters are the first one, as in
        # ltrim(chars, text).
        return self.closed(Call("trim-from" if name in (None, "trim") else name, (chars, self.expression())))

    def arguments(self, function: str = "") -> list[Syntax]:
        args: list[Syntax] = []
        if self.take(")"):
            return args
        if self.peek() == "*":
            self.refuse(f"{function}(*)")
        while True:
            parameters = self.parameters()
            args.append(self.lambda_of(parameters) if parameters else self.expression())
            if self.peek() == "from" and function in ("substring", "substr"):
                self.at += 1
                args.append(self.expression())
                if self.take("for"):
                    args.append(self.expression())
            if function == "overlay" and len(args) == 1 and self.take("placing"):
                args.append(self.expression())
                self.expect("from")
                args.append(self.expression())
                if self.take("for"):
                    args.append(self.expression())
                self.expect(")")
                self.no_window()
                return args
            if self.take(","):
                continue
            self.expect(")")
            self.no_window()
            return args

    def no_window(self) -> None:
        if self.peek() in ("over", "filter") and self.peek(1) == "(":
            self.refuse("a window or aggregate function")

    def parameters(self) -> list[str]:
        """Skips and returns the parameters of a lambda function; none for any other argument."""
        start, names = self.at, []
        if not self.take("("):
            if self.kind() in ("name", "quoted") and self.peek(1) == "->":
                names = [self.identifier()]
        else:
            while self.kind() in ("name", "quoted"):
                names.append(self.identifier())
                if not self.take(","):
                    break
            names = names if self.take(")") else []
        if names and self.take("->"):
            return names
        self.at = start
        return []

    def lambda_of(self, parameters: list[str]) -> Lambda:
        lower, before = [p.lower() for p in parameters], len(self.variables)
        if len(set(lower)) < len(lower):
            self.wrong("two parameters of a lambda function have one name")
        self.variables += lower
        body = self.expression()
        del self.variables[before:]
        return Lambda("->", (body,), tuple(range(before, before + len(lower))))

    def type(self) -> SparkType:
        word = self.peek()
        self.at += 1
        if self.take("("):
            sizes = []
            while not self.take(")"):
                sizes.append(self.tokens[self.at].text if self.kind() == "number" else self.wrong("a size is a number"))
                self.at += 1
                self.take(",")
            word = f"{word}({','.join(sizes)})"
        data_type = named(word)
        if data_type is None:
            self.refuse(f"the type {shown(word)}")
        if data_type.name == "decimal" and not (
            data_type.scale <= data_type.precision <= MAX_PRECISION and data_type.precision > 0
        ):
            self.wrong(f"{word} isn't a decimal type")
        return data_type

    # --- leaves ---

    def identifier(self) -> str:
        """The name that comes next, without its backticks."""
        kind = self.kind()
        if kind == "string" and self.tokens[self.at].text[0] == '"':
            name = self.tokens[self.at].text[1:-1].replace("`", "``")
            self.wrong(f'"{name}" is a text in Spark SQL: write names in backticks, as in `{name}`')
        if kind not in ("name", "quoted"):
            self.wrong("expected a name")
        text = self.tokens[self.at].text
        self.at += 1
        return text if kind == "name" else text[1:-1].replace("``", "`")

    def column(self) -> Syntax:
        parts = [self.identifier()]
        while self.peek() == "." and self.kind(1) in ("name", "quoted"):
            self.at += 1
            parts.append(self.identifier())
        lower = parts[0].lower()
        if lower not in self.variables:
            return Name(tuple(parts))
        # The innermost parameter of a name.
        made: Syntax = Variable(len(self.variables) - 1 - self.variables[::-1].index(lower))
        for part in parts[1:]:
            made = Call(".", (made, Literal(part, STRING)))
        return made

    def string(self) -> Literal:
        pieces, double = [], False
        while self.kind() in ("string", "raw"):
            kind, text, _ = self.tokens[self.at]
            pieces.append(text[2:-1] if kind == "raw" else unescape(text[1:-1], text[0]))
            double |= text[-1] == '"'
            self.at += 1
        if not pieces:
            self.wrong("expected a string")
        return Literal("".join(pieces), STRING, double)

    def hex(self) -> Literal:
        digits = self.tokens[self.at].text[2:-1]
        self.at += 1
        try:
            return Literal(bytes.fromhex(digits.rjust(len(digits) + len(digits) % 2, "0")), SparkType("binary"))
        except ValueError:
            self.wrong(f"X'{digits}' isn't hexadecimal")

    def number(self, sign: str) -> Literal:
        written = self.tokens[self.at].text
        self.at += 1
        lower = written.lower()
        if lower.endswith("bd"):
            return self.exact(sign, lower[:-2])
        if lower[-1] in _SUFFIXES:
            digits, to = lower[:-1], _SUFFIXES[lower[-1]]
            if not (self.fits(sign + digits, to) if to.integral else self.is_finite(digits, to)):
                self.wrong(f"{sign}{written} is out of range")
            return Literal(sign + digits, to)
        if "e" in lower:
            if not self.is_finite(lower, DOUBLE):
                self.wrong(f"{sign}{written} is out of range")
            return Literal(sign + lower, DOUBLE)
        if "." in lower:
            return self.exact(sign, lower)
        for to in (INT, LONG):
            if self.fits(sign + lower, to):
                return Literal(sign + lower, to)
        return self.exact(sign, lower)

    @staticmethod
    def is_finite(digits: str, to: SparkType) -> bool:
        """Whether the digits are at most the type's largest number."""
        if float(digits) < float(_LARGEST[to]):
            return True
        from decimal import Decimal

        # Other digits may be rounded to the largest number.
        return Decimal(digits) <= Decimal(_LARGEST[to])

    @staticmethod
    def fits(digits: str, to: SparkType) -> bool:
        bound = 1 << (to.bits - 1)
        # At most as many digits as a long has: Python refuses to convert thousands of digits.
        number = re.fullmatch(r"(-?)0*(\d{1,19})", digits)
        return number is not None and -bound <= int(number[1] + number[2]) < bound

    def exact(self, sign: str, digits: str) -> Literal:
        if "e" in digits:
            self.refuse("a decimal with an exponent")
        whole, _, fraction = digits.partition(".")
        precision = max(len(whole.lstrip("0")) + len(fraction), len(fraction), 1)
        if precision > MAX_PRECISION:
            self.wrong(f"{digits} has more than {MAX_PRECISION} digits")
        return Literal(
            f"{sign}{whole or '0'}.{fraction}" if fraction else sign + whole, decimal(precision, len(fraction))
        )
