"""C++ source as the checks see it: comments and strings blanked out, and its declarations with the scope they stand in."""
import re

_TOKEN = re.compile(
    r'R"(?P<tag>[^()\\ ]{0,16})\((?:.|\n)*?\)(?P=tag)"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"  # a character, not the ' of 1'000
    r'|//[^\n]*|/\*(?:.|\n)*?\*/')


def blank(text):
    """The text with comments and the insides of literals as spaces; line numbers stay."""

    def spaces(match):
        token = match.group(0)
        if token.startswith(('//', '/*')):
            return re.sub(r'[^\n]', ' ', token)
        return '"' + re.sub(r'[^\n]', ' ', token[1:-1]) + '"'

    return _TOKEN.sub(spaces, text)


def includes(text):
    """(line number, target, is_angled) of every #include; comments must still be in place or blanked, strings not."""
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if found:
            yield number, found.group(2), found.group(1) == '<'


def _scope_of(heading):
    words = re.sub(r'\[\[.*?\]\]', ' ', heading)
    if re.search(r'\bnamespace\b', words) or re.match(r'\s*extern\s+"', words):
        return 'namespace'
    if re.search(r'\b(class|struct|union|enum)\b', words) and not re.search(r'[=(]', re.sub(r'\balignas\s*\([^)]*\)', ' ', words)):
        return 'class'
    if re.search(r'=\s*$', words) or (not re.search(r'[()]', words) and words.strip()):
        return 'value'  # braces that initialise a variable, or begin its value
    return 'function'


def declarations(text):
    """(line number, scope, statement) for each statement that ends in `;`, its brace contents removed.

    Scope is 'namespace', 'class' or 'function'. Preprocessor lines are skipped.
    """
    code = re.sub(r'(?m)^[ \t]*#(?:[^\n\\]|\\.|\\\n)*', lambda m: re.sub(r'[^\n]', ' ', m.group(0)), blank(text))
    scopes = ['namespace']
    statement = ''
    start = None
    line = 1
    parentheses = 0
    for char in code:
        if char == '\n':
            line += 1
        if char in '([':
            parentheses += 1
        elif char in ')]':
            parentheses = max(0, parentheses - 1)
        if char == '{' and parentheses == 0:
            scopes.append(_scope_of(statement))
            if scopes[-1] != 'value':
                statement, start = '', None
            continue
        if char == '}' and parentheses == 0:
            closed = scopes.pop() if len(scopes) > 1 else 'namespace'
            if closed != 'value':
                statement, start = '', None
            continue
        if scopes[-1] == 'value':
            continue
        if char == ';' and parentheses == 0:
            if statement.strip():
                yield start, scopes[-1], ' '.join(statement.split())
            statement, start = '', None
            continue
        if char == ':' and scopes[-1] == 'class' and statement.strip() in ('public', 'private', 'protected'):
            statement, start = '', None
            continue
        if start is None and not char.isspace():
            start = line
        statement += char


def functions(text):
    """(line number, number of lines) of each function body that is not inside another one."""
    code = re.sub(r'(?m)^[ \t]*#(?:[^\n\\]|\\.|\\\n)*', lambda m: re.sub(r'[^\n]', ' ', m.group(0)), blank(text))
    scopes, heading, line, start, parentheses = [], '', 1, 1, 0
    for char in code:
        line += char == '\n'
        if char in '([':
            parentheses += 1
        elif char in ')]':
            parentheses = max(0, parentheses - 1)
        if char == '{' and parentheses == 0:
            scopes.append((_scope_of(heading), start))
            heading = ''
        elif char == '}' and parentheses == 0 and scopes:
            scope, first = scopes.pop()
            if scope == 'function' and all(outer in ('namespace', 'class') for outer, _ in scopes):
                yield first, line - first + 1
            heading = ''
        elif char == ';' and parentheses == 0:
            heading = ''
        else:
            if not heading.strip() and not char.isspace():
                start = line
            heading += char
