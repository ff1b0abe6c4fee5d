"""The Classification page: the utility matrices and how good they are."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.dashboard.figures.matrix_heatmap import height
from apps.dashboard.selectors import classification as read
from apps.dashboard.views.access import has_role, page


@page
def classification(request: HttpRequest) -> HttpResponse:
    """One matrix at one revision; its charts are asked for one by one.

    Raises
    ------
    Http404 : the address asks for a revision that does not exist.
    """
    wanted = read.asked(request.GET)
    revisions = read.revisions(wanted)
    if wanted.revision is not None and revisions.shown is None:
        raise Http404(f"there is no revision {wanted.revision}")
    stored = read.row_names(wanted)
    rows = read.rows_shown(stored, wanted)
    drifted, drifted_all = read.drifted()
    operation = read.open_reclassification()
    return render(
        request,
        "dashboard/classification.html",
        {
            "asked": wanted,
            "matrices": read.matrices(wanted),
            "revisions": revisions,
            "shown": revisions.shown,
            "rows": rows,
            "heat_height": height(len(rows.places)),
            "drifted": drifted,
            "drifted_all": drifted_all,
            "operation": operation,
            "operation_share": (operation.progress / (operation.total or 1)) if operation else 0.0,
            "may_change": has_role(request, Role.OPERATOR),
        },
    )
