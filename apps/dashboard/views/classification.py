"""The Classification page: the utility matrices and their accuracy."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.core.roles import Role
from apps.dashboard.figures.matrix_heatmap import height
from apps.dashboard.selectors import classification as selectors
from apps.dashboard.selectors.revisions import revisions as revisions_shown
from apps.dashboard.views.access import caller, has_role, page


@page
def classification(request: HttpRequest) -> HttpResponse:
    """Show one matrix at one revision; the page fetches its charts.

    Raises
    ------
    Http404 : the address asks for a revision that does not exist.
    """
    query = selectors.read_query(request.GET)
    revisions = revisions_shown(query)
    if query.revision is not None and revisions.shown is None:
        raise Http404(f"There is no revision {query.revision}")
    stored = selectors.row_names(query)
    rows = selectors.rows_shown(stored, query)
    drifted, drifted_all = selectors.drifted()
    operation = selectors.open_reclassification(caller(request))
    return render(
        request,
        "dashboard/classification.html",
        {
            "asked": query,
            "matrices": selectors.matrices(query),
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
