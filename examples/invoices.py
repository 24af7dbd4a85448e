"""Invoices from an inbox to a report, in six nodes. Try it:

    tally run start ndjson:demo-runs examples.invoices:invoices --run monday --input inbox.txt=examples/inbox.txt
    tally run status ndjson:demo-runs monday
    tally run graph ndjson:demo-runs monday --svg monday.svg

Kill it at any moment and say `tally run resume ndjson:demo-runs monday`.
"""

from __future__ import annotations

import re

from tallystick.runs import Artifact, Work, Workflow

invoices = Workflow("invoices")
invoices.input("inbox.txt")

AMOUNT = re.compile(r"total:? *([0-9]+)[.,]([0-9]{2})", re.IGNORECASE)
SUPPLIER = re.compile(r"^from:? *(.+)$", re.IGNORECASE | re.MULTILINE)


@invoices.node(
    inputs=["inbox.txt"], outputs=[Artifact("documents", "documents.json", "invoices/documents/1")], section="read"
)
def split(work: Work) -> None:
    """One document for each part between lines of dashes."""
    parts = re.split(r"^-{3,}$", work.text("inbox.txt"), flags=re.MULTILINE)
    work.write_json("documents", [part.strip() for part in parts if part.strip()])


@invoices.node(inputs=["documents"], outputs=[Artifact("fields", "fields.json")], section="understand", retries=2)
def extract(work: Work) -> None:
    """Supplier and amount in cents, as far as they can be found."""
    found = []
    for number, text in enumerate(work.json("documents"), 1):
        amount, supplier = AMOUNT.search(text), SUPPLIER.search(text)
        if amount is None:
            work.open_issue("AmountMissing", f"document {number} has no total")
        cents = int(amount[1]) * 100 + int(amount[2]) if amount else None
        found.append({"number": number, "supplier": supplier[1].strip() if supplier else None, "cents": cents})
    work.write_json("fields", found)


@invoices.node(
    inputs=["documents"],
    outputs=[Artifact("classes", "classes.json")],
    section="understand",
    params={"reminder": ["reminder", "overdue"], "credit": ["credit note", "refund"]},
)
def classify(work: Work) -> None:
    """Invoice, reminder or credit note, by the words in it."""
    classes = []
    for text in work.json("documents"):
        words = text.lower()
        kinds = (kind for kind in sorted(work.params) if any(word in words for word in work.params[kind]))
        classes.append(next(kinds, "invoice"))
    work.write_json("classes", classes)


@invoices.node(
    inputs=["fields"],
    outputs=[Artifact("suspicious", "suspicious.json")],
    section="understand",
    params={"limit": 100_000},
)
def screen(work: Work) -> None:
    """Documents that a person should look at."""
    limit = work.params["limit"]
    odd = [item["number"] for item in work.json("fields") if item["cents"] is None or item["cents"] > limit]
    work.write_json("suspicious", odd)


@invoices.node(inputs=["fields", "classes"], outputs=[Artifact("totals", "totals.json")], section="report")
def total(work: Work) -> None:
    """The sum for each supplier; credit notes count against it."""
    sums: dict[str, int] = {}
    for item, kind in zip(work.json("fields"), work.json("classes"), strict=True):
        if item["cents"] is not None and kind != "reminder":
            name = item["supplier"] or "unknown"
            sums[name] = sums.get(name, 0) + (-item["cents"] if kind == "credit" else item["cents"])
    work.write_json("totals", sums)


@invoices.node(inputs=["totals", "suspicious"], outputs=["report.md"], section="report")
def report(work: Work) -> None:
    """A page for people."""
    lines = ["# Invoices", ""]
    lines += [f"- {name}: {cents / 100:.2f}" for name, cents in sorted(work.json("totals").items())]
    odd = ", ".join(str(number) for number in work.json("suspicious"))
    work.write("report.md", "\n".join([*lines, "", f"To look at: {odd or 'none'}", ""]))
