"""Parts of apex.contrib that torch has itself."""

from amp_migrate.report.rule import Rule

RULE = Rule(
    code="AMP340",
    name="apex-contrib",
    summary="a class or function of apex.contrib that torch has itself",
    before="apex.contrib.clip_grad.clip_grad_norm_(model.parameters(), 1.0)",
    after="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    why="They take the same arguments and compute the same; torch's need no extension that has to be compiled.",
)
