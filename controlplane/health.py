"""Health check for load balancers and containers."""

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET


@require_GET
def healthz(request: HttpRequest) -> HttpResponse:
    """Return 200 if the database and the broker respond, otherwise 503 naming the failed one."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return HttpResponse("database unavailable\n", status=503, content_type="text/plain")
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2) as client:
            client.ping()
    except redis.RedisError:
        return HttpResponse("broker unavailable\n", status=503, content_type="text/plain")
    return HttpResponse("ok\n", content_type="text/plain")
