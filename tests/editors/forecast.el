;;; forecast.el --- What a user of Eglot does to forecast a function  -*- lexical-binding: t -*-

;;; Commentary:

;; EXPECTED in the environment is what the command line says.

;;; Code:

(defun session-text ()
  "What the last forecast says in a few words, or nil."
  (plist-get (jsonrpc-request (eglot--current-server-or-lose) :drygrad/forecast (list)) :text))

(let ((expected (car (split-string (getenv "EXPECTED") "|"))))
  (session-open)
  (session-go-to "relu")
  (session-choose "Forecast square")
  (session-wait-until "the forecast that the command line makes" (lambda () (equal (session-text) expected))))

;;; forecast.el ends here
