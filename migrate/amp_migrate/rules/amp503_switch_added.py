"""A command line that gets an option for mixed precision."""

from amp_migrate.report.rule import Rule

RULE = Rule(
    code="AMP503",
    name="switch-added",
    summary="a command line that gets an option for mixed precision, with --add-flag",
    before='parser.add_argument("--lr", type=float)',
    after=(
        'parser.add_argument("--lr", type=float)\n'
        'parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True, '
        'help="mixed precision")'
    ),
    why=(
        "With --no-amp every autocast and every GradScaler that was added is disabled, and the script trains as it "
        "did before it was moved: the two can be compared, and a doubt be settled, without a second copy. The flag "
        "goes to every region and scaler, through parameters where the parsed arguments are out of sight."
    ),
)
