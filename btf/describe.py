# Run by make.sh within gdb, on the debug file of a module: prints C that lays structs out as the
# module's DWARF does, with only the fields asked for.
#
# $WANT has a line for each struct: its name, then its fields, `?` behind one that may be missing.
# Pointers become `void *`, so that nothing else has to be described. Otherwise the kind stays (a
# union, an enum): CO-RE compares kinds.

import os
import sys

import gdb

NUMBERS = {gdb.TYPE_CODE_INT, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_CHAR}
RECORDS = {gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION}

helpers = {}  # what the structs contain: name to definition
# Structs that the file has: a member may be one of them.
described = {"nvme_ctrl"}


def find(record, name, base=0):
    """The field of that name and its offset, be it in an anonymous member."""
    for field in record.fields():
        at = base + field.bitpos // 8
        if field.name == name:
            if field.bitsize:
                raise gdb.error(f"{record}.{name} is a bit-field")
            return at, field
        if not field.name and field.type.strip_typedefs().code in RECORDS:
            found = find(field.type.strip_typedefs(), name, at)
            if found:
                return found
    return None


def declare(kind, name):
    """A member of that type, in C."""
    real = kind.strip_typedefs().unqualified()
    if real.code == gdb.TYPE_CODE_PTR:
        target = str(real.target())
        return f"\t{'' if target == 'void' else f'/* {target} */ '}void *{name};\n"
    if real.code in NUMBERS:
        return f"\t{'s' if real.is_signed else 'u'}{real.sizeof * 8} {name};\n"
    if real.code == gdb.TYPE_CODE_ENUM and real.tag:
        body = "".join(f"\t{f.name} = {f.enumval},\n" for f in real.fields())
        helpers[real.tag] = f"enum {real.tag} {{\n{body}}};\n"
        return f"\tenum {real.tag} {name};\n"
    if real.code == gdb.TYPE_CODE_UNION and real.tag:
        body = "".join(declare(f.type, f.name) for f in real.fields())
        helpers[real.tag] = f"union {real.tag} {{\n{body}}};\n"
        return f"\tunion {real.tag} {name};\n"
    if real.code == gdb.TYPE_CODE_STRUCT and real.tag == "list_head":
        body = "".join(declare(f.type, f.name) for f in real.fields())
        helpers[real.tag] = f"struct {real.tag} {{\n{body}}};\n"
        return f"\tstruct {real.tag} {name};\n"
    if real.code == gdb.TYPE_CODE_STRUCT and real.tag in described:
        return f"\tstruct {real.tag} {name};\n"
    raise gdb.error(f"{name} is of a kind that describe.py does not know: {kind}")


def describe(tag, *names):
    record = gdb.lookup_type(f"struct {tag}")
    fields = []
    for name in names:
        found = find(record, name.rstrip("?"))
        if found:
            fields.append(found)
        elif not name.endswith("?"):
            raise gdb.error(f"struct {tag} has no field {name}")
    members, checks, end, pads = "", "", 0, 0
    for at, field in sorted(fields, key=lambda found: found[0]) + [(record.sizeof, None)]:
        if at > end:
            members += f"\tu8 _pad{pads}[{at - end}];\n"
            pads += 1
        if field:
            members += declare(field.type, field.name)
            checks += f"AT({tag}, {field.name}, {at}, {field.type.sizeof});\n"
            end = at + field.type.sizeof
    return f"struct {tag} {{\n{members}}};\n{checks}SIZE({tag}, {record.sizeof});\n"


try:
    structs = [describe(*line.split()) for line in os.environ["WANT"].splitlines()]
    print("\n".join([*helpers.values(), *structs]), end="")
except gdb.error as error:
    print(f"describe: {error}", file=sys.stderr)
    gdb.execute("quit 1")  # gdb itself would end well
