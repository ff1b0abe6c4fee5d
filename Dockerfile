FROM python:3.12-slim-bookworm AS build
COPY requirements/base.txt /tmp/base.txt
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --require-hashes --no-deps -r /tmp/base.txt

FROM python:3.12-slim-bookworm
RUN useradd --system --create-home --home-dir /srv/berth berth
WORKDIR /srv/berth/app
COPY --from=build /venv /venv
COPY . .
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONPATH=/srv/berth/app \
    DJANGO_SETTINGS_MODULE=controlplane.settings.prod \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1
# The addresses are not used while files are collected, but the settings insist on having them.
RUN BERTH_SECRET_KEY=building DATABASE_URL=postgresql:///none REDIS_URL=redis://none/0 \
    python manage.py collectstatic --no-input
USER berth
EXPOSE 8000 8001
CMD ["gunicorn", "controlplane.wsgi:application", "--bind", "0.0.0.0:8000", \
     "--worker-class", "gthread", "--workers", "2", "--threads", "8", \
     "--keep-alive", "30", "--no-control-socket"]
