FROM python:3.12.14-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254 AS build
COPY requirements/base.txt /tmp/base.txt
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --require-hashes --no-deps -r /tmp/base.txt

FROM python:3.12.14-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254
RUN useradd --system --uid 10001 --create-home --home-dir /srv/berth berth \
    && install --directory --owner=berth --group=berth /srv/berth/kernels
WORKDIR /srv/berth/app
COPY --from=build /venv /venv
COPY . .
# Kernels are compiled for the processor they run on, so they cannot be part of the image.
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONPATH=/srv/berth/app \
    DJANGO_SETTINGS_MODULE=controlplane.settings.prod \
    NUMBA_CACHE_DIR=/srv/berth/kernels \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1
# The addresses are not used while files are collected, but the settings insist on having them.
RUN python -m compileall -q apps controlplane \
    && BERTH_SECRET_KEY=building DATABASE_URL=postgresql:///none REDIS_URL=redis://none/0 \
    python manage.py collectstatic --no-input
USER berth
EXPOSE 8000 8001
CMD ["gunicorn", "controlplane.wsgi:application", "--bind", "0.0.0.0:8000", \
     "--worker-class", "controlplane.web_worker.Worker", "--workers", "2", "--threads", "8", \
     "--keep-alive", "30", "--no-control-socket"]
