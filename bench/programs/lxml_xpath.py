# SPDX-License-Identifier: MIT
"""lxml: parsing, XPath with Python functions, XSLT, serialisation."""
REQUIRES = ["lxml"]
WITHIN = {r"^(xmlXPath\w+|xslt\w+) \(": r"^(asked|transformed|setup) \("}


def is_even(_, values):
    return [value for value in values if int(value.get("n")) % 2 == 0]


def parsed():
    return etree.fromstring(TEXT)


def asked():
    TREE.xpath("//item[@n > 500]/name/text()")
    TREE.xpath("lab:even(//item)", namespaces={"lab": "lab"})


def transformed():
    SHEET(TREE)


def written():
    etree.tostring(TREE, pretty_print=True)


def setup():
    global etree, TEXT, TREE, SHEET
    from lxml import etree
    etree.FunctionNamespace("lab")["even"] = is_even
    TEXT = "<items>" + "".join(f'<item n="{i}"><name>name {i}</name><v>{i * i}</v></item>' for i in range(2000)) + \
        "</items>"
    TREE = etree.fromstring(TEXT)
    SHEET = etree.XSLT(etree.fromstring(
        '<x:stylesheet xmlns:x="http://www.w3.org/1999/XSL/Transform" version="1.0"><x:template match="/items"><o>'
        '<x:for-each select="item"><x:sort select="v" order="descending"/><i><x:value-of select="name"/></i>'
        '</x:for-each></o></x:template></x:stylesheet>'))


def work():
    parsed()
    asked()
    transformed()
    written()
