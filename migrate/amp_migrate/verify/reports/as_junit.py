"""The verdict as JUnit XML, which CI servers list among their tests: a suite per verification, a case per check."""

from __future__ import annotations

from xml.etree import ElementTree

from amp_migrate.report.plain import plain
from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.judge.verdict import Verdict
from amp_migrate.verify.reports.outcome import Outcome

# What a JUnit report has for a check that did not pass.
_ELEMENTS = {
    Status.FAIL: "failure",
    Status.VACUOUS: "error",
    Status.INCONCLUSIVE: "skipped",
    Status.NOT_ASSESSED: "skipped",
}


def render(outcome: Outcome) -> str:
    """The XML text. An original that failed is an error, because it says nothing about the migration."""
    cases = [_case(outcome, check) for check in outcome.assessment.checks]
    if outcome.assessment.verdict is Verdict.TOO_SLOW:
        case = _new_case(outcome, "performance gate")
        ElementTree.SubElement(case, "failure", message=outcome.assessment.sentence)
        cases.append(case)
    found = [child.tag for case in cases for child in case]
    suite = ElementTree.Element(
        "testsuite",
        name=f"amp-verify {outcome.name}",
        tests=str(len(cases)),
        failures=str(found.count("failure")),
        errors=str(found.count("error")),
        skipped=str(found.count("skipped")),
        time=f"{sum(result.seconds for result in outcome.evidence.all):.3f}",
    )
    suite.extend(cases)
    said = f"{outcome.assessment.word}: {outcome.assessment.sentence}\n{outcome.assessment.suspicion}".strip()
    ElementTree.SubElement(suite, "system-out").text = said
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    for element in suites.iter():
        # XML has no way to write most control characters, not even escaped.
        element.text = element.text and plain(element.text, keep="\n\t")
        element.attrib.update((key, plain(value, keep="\n\t")) for key, value in element.attrib.items())
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(outcome: Outcome, check: Check) -> ElementTree.Element:
    case = _new_case(outcome, f"{check.id} {check.title}")
    element = _ELEMENTS.get(check.status)
    if element == "failure" and outcome.assessment.verdict is Verdict.ORIGINAL_FAILED:
        element = "error"
    if element is None:
        ElementTree.SubElement(case, "system-out").text = check.detail
    else:
        ElementTree.SubElement(case, element, message=check.detail)
    return case


def _new_case(outcome: Outcome, name: str) -> ElementTree.Element:
    return ElementTree.Element("testcase", classname=f"amp-verify.{outcome.name}", name=name)
